// What a goroutine, or a plain thread, wants done when it ends: values of its own destroyed
// (goroutine_local), then promises kept (set_value_at_thread_exit).
//
// The hooks run as the goroutine's own code, on its stack, after its function has returned or was
// unwound by goexit(): those of its own values first, then the others, among each other the last one
// registered first. A hook may register others, for which the same holds. Plain threads run theirs when
// they end, after C++ has destroyed their thread_locals; at exit() of the process they do not run.
//
// The lists have one user each, so there is nothing atomic here: what a hook publishes, it publishes by
// means of its own (a future's gate, a mutex).
//
// X1: as long as a value of its own is left, nothing is published. Otherwise whoever was told takes away
//     what the value's destructor uses.
#pragma once

namespace weft::rt {

struct G;

struct exit_hook {
  exit_hook* next = nullptr;
  void (*run)(exit_hook*) = nullptr;  // called once; the hook is its own afterwards
  bool own_values = false;            // destroys what the goroutine or thread owns
};

// Runs on: G, plain thread. Blocks: nothing.
void at_exit(exit_hook& hook);

// By a goroutine that ends.
void run_exit_hooks(G* gp);

// A word that belongs to the calling goroutine or plain thread, null at first. Whoever sets it registers a
// hook that makes it null again.
void* own_word();
void set_own_word(void* word);

}  // namespace weft::rt
