// All of weft.
#pragma once

#include <weft/barrier.h>
#include <weft/chan.h>
#include <weft/condition_variable.h>
#include <weft/context.h>
#include <weft/future.h>
#include <weft/go.h>
#include <weft/goroutine_local.h>
#include <weft/latch.h>
#include <weft/mutex.h>
#include <weft/once.h>
#include <weft/panic.h>
#include <weft/pool.h>
#include <weft/run.h>
#include <weft/runtime.h>
#include <weft/select.h>
#include <weft/semaphore.h>
#include <weft/shared_mutex.h>
#include <weft/singleflight.h>
#include <weft/stop_token.h>
#include <weft/task_group.h>
#include <weft/thread.h>
#include <weft/time.h>
#include <weft/wait_group.h>
