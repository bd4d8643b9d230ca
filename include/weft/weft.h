// All of weft.
#pragma once

#include <weft/chan.h>
#include <weft/context.h>
#include <weft/go.h>
#include <weft/panic.h>
#include <weft/run.h>
#include <weft/runtime.h>
#include <weft/select.h>
#include <weft/stop_token.h>
#include <weft/task_group.h>
#include <weft/thread.h>
#include <weft/time.h>
#include <weft/wait_group.h>
