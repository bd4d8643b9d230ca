// All of weft.
#pragma once

#include <weft/chan.h>
#include <weft/go.h>
#include <weft/panic.h>
#include <weft/run.h>
#include <weft/runtime.h>
#include <weft/select.h>
#include <weft/thread.h>
#include <weft/time.h>
#include <weft/wait_group.h>
