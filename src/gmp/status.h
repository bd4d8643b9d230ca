// The life of a goroutine as a state machine: the states, who owns what in each, and the legal edges.
//
//              spawn                     ready
//     dead ───────────► runnable ◄─────────────────┐
//      ▲                  │  ▲                     │
//      │exit       execute│  │yield                │
//      │                  ▼  │          park       │
//      └──────────────  running ──────────────► waiting
//
//     state     on a run queue       owns its stack     has M   has P
//     dead      no (free list)       nobody             no      no
//     runnable  yes, exactly one     nobody             no      no
//     running   no                   the goroutine      yes     yes
//     syscall   no                   the goroutine      yes     no
//     frozen    runnable, on the     the goroutine,     yes     no
//               list of frozen ones  which is stopped
//     waiting   no; its waker has it nobody (*)         no      no
//
// (*) A parked goroutine's waiter node lives on its stack and may be written by its waker.
//
// The parking goroutine makes its own transition to `waiting` just before it leaves its stack, and
// its successor publishes it (see sched/switch.h). Nobody can ready it before that, so the short
// time in which it is `waiting` while still on its stack is invisible to wakers.
//
// The numbers are Go's, so that dumps and traces mean the same to a reader of both.
// Go: runtime/runtime2.go _Gidle …
#pragma once

#include <cstdint>

namespace weft::rt {

enum class g_status : std::uint8_t {
  idle = 0,  // allocated, never used
  runnable = 1,
  running = 2,
  syscall = 3,  // in the user's code without a P: it blocks there, or did
  waiting = 4,
  dead = 6,
};

struct g_edge {
  g_status from;
  g_status to;
};

inline constexpr g_edge kLegalEdges[] = {
    {g_status::idle, g_status::dead},         // creation, before the G is in any table
    {g_status::dead, g_status::runnable},     // spawn
    {g_status::runnable, g_status::running},  // execute
    {g_status::running, g_status::runnable},  // yield
    {g_status::running, g_status::waiting},   // park
    {g_status::waiting, g_status::runnable},  // ready, or a park whose commit refused
    {g_status::running, g_status::dead},      // exit
    {g_status::running, g_status::syscall},   // its P was taken: sched/retake.cc
    {g_status::syscall, g_status::running},   // … and there was an idle one when it came back
    {g_status::syscall, g_status::runnable},  // … or there was none
};

constexpr bool legal_edge(g_status from, g_status to) {
  for (const g_edge& e : kLegalEdges) {
    if (e.from == from && e.to == to) {
      return true;
    }
  }
  return false;
}

constexpr const char* to_string(g_status s) {
  switch (s) {
    case g_status::idle: return "idle";
    case g_status::runnable: return "runnable";
    case g_status::running: return "running";
    case g_status::syscall: return "syscall";
    case g_status::waiting: return "waiting";
    case g_status::dead: return "dead";
  }
  return "unknown";
}

}  // namespace weft::rt
