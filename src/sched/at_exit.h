// What a goroutine, or a plain thread, wants done when it ends: values of its own destroyed
// (goroutine_local), promises kept (set_value_at_thread_exit).
//
// The hooks run as the goroutine's own code, on its stack, after its function has returned or was
// unwound by goexit(), the last one registered first; a hook may register others. Plain threads run
// theirs when they end; at exit() of the process they do not run.
#pragma once

namespace weft::rt {

struct G;

struct exit_hook {
  exit_hook* next = nullptr;
  void (*run)(exit_hook*) = nullptr;  // called once; the hook is its own afterwards
};

// Runs on: G, plain thread. Blocks: nothing.
void at_exit(exit_hook& hook);

// By a goroutine that ends.
void run_exit_hooks(G* gp);

// A word that belongs to the calling goroutine or plain thread, null at first, and again before its
// hooks run.
void* own_word();
void set_own_word(void* word);

}  // namespace weft::rt
