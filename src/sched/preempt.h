// Taking a P from a goroutine that does not give it up by itself (D2), and giving it back.
#pragma once

#include "gmp/m.h"
#include "gmp/sched.h"

namespace weft::rt {

// Once each, while booting, in this order.
void choose_signal() noexcept;
void install_preemption() noexcept;

// The runtime's own: SIGURG, or what WEFTDEBUG=preemptsignal says.
int runtime_signal() noexcept;
// Sends it to the thread, marked as the runtime's. False: the thread is gone, or a sandbox forbids it.
bool send_runtime_signal(int tid) noexcept;

// In the handler, on mp's thread: whether there is a request, which counts as taken; and doing what it says.
bool take_request(M* mp) noexcept;
void obey_request(M* mp) noexcept;

// Asks the goroutine on mp to make room: by a flag that it sees when it next leaves the runtime, and unless tid is 0
// by a signal to that thread, too. May meet nobody, or somebody else.
void ask_to_yield(M* mp, int tid) noexcept;

// For ask_to_yield(): mp's thread; 0 if none is wanted, as a signal is on its way already. Under sched.lock, while mp has
// a P or was robbed of it: only then has it a thread for sure. Otherwise the record might just be passing to another
// thread, and with a signal sent to the last one its successor would never be sent any.
int thread_to_signal(M* mp) noexcept WEFT_REQUIRES(sched.lock);

// mp's scheduler has come to a goroutine that was frozen on another M: lends that M its P, and sleeps.
void thaw(M* mp, G* gp);

// exit() has closed the gate. Those who are frozen in the user's code wake, and call freeze_for_exit(), for which list() has been
// told of them; or it does not want them, and they sleep on.
void rouse_frozen_locked(bool (*list)(int tid)) WEFT_REQUIRES(sched.lock);

// Somebody is runnable on whichever M, on whichever queue: an idle M with a P would find it.
bool fresh_work_locked() WEFT_REQUIRES(sched.lock);

// pp goes to an M for whoever is runnable on any: it shall find one before it finds a frozen one. The caller has the P.
void prepare_for_fresh_locked(P* pp) WEFT_REQUIRES(sched.lock);

// More threads than this stay frozen only for a moment; then frozen goroutines go before fresh ones. WEFTDEBUG=maxfrozen=N
// sets it.
std::int32_t most_frozen();

}  // namespace weft::rt
