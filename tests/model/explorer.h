// weft's model checker: every interleaving and every stale load of a small scenario, within bounds.
//
// Why. Lock-free protocols fail in ways that no test on a real machine shows: the wrong
// interleaving is rare, and the machine at hand may not reorder what another one does. A stress
// test on x86 passes with most acquires and releases removed. Here the very headers that products
// compile (gmp/run_queue.h, base/note.h, …) are compiled once more with WEFT_MODEL, which makes
// base/atomic.h take its atomics from here; then small scenarios are run in *all* their executions.
//
//   engine.h     depth-first search over choices, threads as fibers, preemption bound, traces
//   knowledge.h  what a thread must see (views) and what happened before it (vector clocks)
//   memory.h     atomics with a history of writes, fences
//   plain.h      race-checked variables and queue slots
//   blocking.h   futex, lock, note
//   mutants.h    labelled orders and logic switches, weakened one at a time
//   protocol.h   scenarios, the mutation run and its table, coverage of labels
//
// How to write a model. A scenario builds a fresh world for each execution:
//
//     void hand_over(world& w) {
//       auto* s = w.make<state>();                   // the objects, with rt::atomic, rt::cell …
//       w.thread("producer", [s] { s->data.set(1); s->ready.store(1, WEFT_ORDER(AB1, release)); });
//       w.thread("consumer", [s] {
//         if (s->ready.load(WEFT_ORDER(AB1, acquire)) == 1) check(s->data.get() == 1, "torn");
//       });
//       w.finally([s] { … });                        // when all threads have ended
//     }
//
// and a protocol lists its scenarios with their bounds and the headers whose orders they answer
// for; expect_all_mutants_caught() does the rest. Rules: deterministic (no addresses, time,
// randomness in decisions); spin loops call cpu_pause(); plain shared data is rt::cell, or nobody
// checks it; host variables (int taken) may be used for bookkeeping, the fibers never run at the
// same time. At most kThreads threads and kLocations atomics. A scenario wants five to thirty steps
// a thread: prefer three small scenarios to one large one, each mutant has to be met in only one of
// them. Operations on atomics that one thread alone uses, or that nobody writes, are no schedule
// points.
//
// The memory model. C++20 without seq_cst accesses, as views: a load may return any write of the
// location that is not older than the newest one the thread must see. Coherence (also through other
// threads), release and acquire, release sequences, fences of all kinds, failing compare-exchanges
// that read old values, weak ones that fail for no reason (once an execution). seq_cst fences raise
// views only, so they never make plain data look published. The pair light_fence()/heavy_fence()
// orders like seq_cst fences, but two light ones do not. tests/model/litmus_test.cc shows all this.
//
// Slots. A work queue reads a slot *before* the compare-exchange that makes the value its own. Such
// a read is speculative: only a success right after it makes it count. Then it is checked as if the
// slot were a plain variable: its write must have happened before it, and whoever overwrites the
// slot must have it happen before. So a missing acquire of head before a slot is reused is found,
// although the wrong value itself would come from a reordering that is not modelled (a load from
// the future).
//
// Honest limits
//  1. Modification order is execution order: a write is always newer than those executed before it.
//     The outcomes of 2+2W that need otherwise are not explored.
//  2. No load buffering: a load returns only what has been written in this execution. Compilers and
//     ARM may let a load take a value stored "later"; race checks of cells and slots stand in for
//     it where plain data depends on it.
//  3. seq_cst loads and stores count as acquire and release. Protocols here use seq_cst fences.
//  4. Bounds. Preemptions per execution are bounded (most bugs need one or two); a load returns the
//     same old value at most options::rereads times again (writes become visible in the end), and
//     large scenarios bound the old loads altogether (options::old_loads); spurious wake-ups and
//     time-outs are bounded; WEFT_MODEL_DEEPER=1 adds a preemption.
//  5. Small worlds: few threads, capacity 4. That a protocol scales from there is an argument, not
//     a result.
//  6. cpu_pause() hands over to another thread and is not a preemption; code that spins without it
//     is reported as a livelock.
//  7. Objects that are freed are not poisoned: use after free is the sanitizers' business.
// Rejected: Relacy (macros over keywords, no C++20 release sequences), loom-like rewriting of
// threads (needs a runtime in the product), DPOR (with a preemption bound it is no longer exact,
// and the whole suite takes seconds without it).
#pragma once

#include "model/blocking.h"
#include "model/engine.h"
#include "model/memory.h"
#include "model/mutants.h"
#include "model/plain.h"

namespace weft::rt {

using model::atomic;
using model::cell;
using model::fence;
using model::heavy_fence;
using model::light_fence;
using model::slot;

inline void cpu_pause() { model::engine::get().yield(); }
inline bool init_asymmetric_fence() { return true; }

}  // namespace weft::rt
