// Exhaustive model of sync/cancel_tree.h: nodes are cancelled, born, pinned and dropped at once.
//
// Every descendant of a cancelled node is cancelled, once, with its parent's error; who sees the error
// finds done closed; a node goes once, when nobody is in it any more, with all that was done to it
// before; and none is left that nobody can reach.
#include <gtest/gtest.h>

#include "model/protocol.h"
#include "sync/cancel_tree.h"

namespace weft::model {
namespace {

struct node : rt::tree_links<node> {
  explicit node(node* parent) : tree_links(this, parent) {
    if (parent != nullptr) rt::tree_retain(parent);
  }

  rt::atomic<std::uint32_t> references{1};
  rt::cell<int> error{0};
  rt::cell<int> closed{0};
  rt::cell<int> alive{1};
  rt::cell<int> used[3];  // by each thread, before it drops its reference

  void touched() { check(alive.get() == 1, "touched after its end"); }
  void close_done() {
    check(closed.get() == 0, "closed twice");
    closed.set(1);
  }
  void in_hooks(bool begins) { firing = begins ? this_thread() : 0; }
  static int this_thread() { return static_cast<int>(engine::get().current()) + 1; }
  int firing = 0;  // the thread that calls its hooks

  static void release(node* n) {
    check(n->firing != this_thread(), "a hook drops a reference");
    if (rt::tree_drop(n)) end_of(n);
  }
  static void end_of(node* n) {
    for (bool last = true; last;) {
      node* parent = n->above;
      rt::leave_parent(n);
      for (auto& u : n->used) u.get();
      n->touched();
      n->alive.set(0);
      n = parent;
      last = n != nullptr && rt::tree_drop(n);
    }
  }
};

// As context.cc does.
node* cancel_all(node* n, int error) {
  return rt::cancel_all(
      n, [=](node* m) { m->error.set(m == n ? error : m->above->error.get()); }, [](node*) {});
}
void cancel(node* n, int error) { rt::release_all(n, cancel_all(n, error)); }
void cancel_briefly(node* n, int error) {
  for (node* dead = rt::drop_all(n, cancel_all(n, error)); node* m = dead;) {
    dead = m->next;
    node::end_of(m);
  }
}
int error_of(node* n) {
  if (!n->source.cancelled()) return 0;
  while (!rt::is_finished(n)) rt::cpu_pause();
  check(n->closed.get() == 1, "an error, but done is open");
  return n->error.get();
}
void hear_of_parent(node* n) {
  if (!rt::follow_parent(n)) cancel(n, error_of(n->above));
}

// Drops a handle, having used the node.
void drop(node* n, int who) {
  n->used[who].set(1);
  node::release(n);
}

void gone(node* n) { check(n->alive.get() == 0, "left behind"); }

// The child's last handle goes while its parent is cancelled. CX2
void release_against_cancel(world& w) {
  auto* parent = w.make<node>(nullptr);
  auto* child = w.make<node>(parent);
  hear_of_parent(child);
  rt::tree_retain(child);
  w.thread("canceller", [=] {
    cancel(parent, 5);
    drop(parent, 0);
  });
  w.thread("owner", [=] { drop(child, 1); });
  w.thread("other owner", [=] { drop(child, 2); });
  w.finally([=] { gone(child), gone(parent); });
}

// A child that is born meanwhile hears of it, one way or the other.
void birth_against_cancel(world& w) {
  auto* parent = w.make<node>(nullptr);
  auto* child = w.make<node>(parent);
  rt::tree_retain(parent);
  w.thread("canceller", [=] {
    cancel(parent, 5);
    drop(parent, 0);
  });
  w.thread("creator", [=] {
    hear_of_parent(child);
    drop(parent, 1);
  });
  w.finally([=] {
    check(error_of(child) == 5, "the child has not heard of it");
    drop(child, 2);
    gone(child), gone(parent);
  });
}

// Nobody keeps the child but its own pin. It goes with the cancellation.
void pin_against_cancel(world& w) {
  auto* parent = w.make<node>(nullptr);
  auto* child = w.make<node>(parent);
  hear_of_parent(child);
  w.thread("canceller", [=] {
    cancel(parent, 5);
    drop(parent, 0);
  });
  w.thread("asks for done", [=] {
    rt::pin_node(child);
    drop(child, 1);
  });
  w.finally([=] { gone(child), gone(parent); });
}

// Its own cancel function and its parent's, a grandchild, and somebody who looks.
void both_cancel(world& w) {
  auto* parent = w.make<node>(nullptr);
  auto* child = w.make<node>(parent);
  auto* grandchild = w.make<node>(child);
  hear_of_parent(child);
  hear_of_parent(grandchild);
  w.thread("cancels the parent", [=] {
    cancel(parent, 5);
    drop(parent, 0);
  });
  w.thread("cancels the child", [=] {
    cancel(child, 6);
    drop(child, 1);
  });
  w.finally([=] {
    const int e = error_of(grandchild);
    check(e == 5 || e == 6, "the grandchild has not heard of it");
    check(e == child->error.get(), "not its parent's error");
    drop(grandchild, 2);
    gone(grandchild), gone(child), gone(parent);
  });
}

// The cancel function is part of what the one who hears of it destroys. CX6
void destroyed_by_who_heard(world& w) {
  auto* parent = w.make<node>(nullptr);
  auto* child = w.make<node>(parent);
  hear_of_parent(child);
  rt::pin_node(child);
  rt::tree_retain(child);
  w.thread("canceller", [=] {
    cancel(child, 6);
    drop(child, 0);
  });
  w.thread("hears of it", [=] {
    if (error_of(child) != 0) check(child->error.get() == 6, "another error");
    drop(child, 1);
  });
  w.finally([=] {
    gone(child);
    drop(parent, 2);
    gone(parent);
  });
}

// Nobody but the cancellation keeps the node, once it has been heard of. CX6
void kept_by_the_canceller(world& w) {
  auto* n = w.make<node>(nullptr);
  w.thread("canceller", [=] { cancel(n, 6); });
  w.thread("hears of it", [=] {
    while (error_of(n) == 0) rt::cpu_pause();
    drop(n, 1);
  });
  w.finally([=] { gone(n); });
}

// A stop callback cancels: two children and a grandchild end with it, or with their owner.
void cancelled_briefly(world& w) {
  auto* parent = w.make<node>(nullptr);
  auto* child = w.make<node>(parent);
  auto* grandchild = w.make<node>(child);
  auto* other = w.make<node>(parent);
  for (node* n : {child, grandchild, other}) hear_of_parent(n);
  rt::pin_node(grandchild);
  drop(grandchild, 2);
  drop(child, 2);
  w.thread("callback", [=] {
    cancel_briefly(parent, 5);
    drop(parent, 0);
  });
  w.thread("owner", [=] { drop(other, 1); });
  w.finally([=] { gone(grandchild), gone(child), gone(other), gone(parent); });
}

const protocol kProtocol{
    "cancel_tree",
    {"sync/cancel_tree.h"},
    {},
    {
        {"release against cancel", {.preemptions = 2}, release_against_cancel},
        {"birth against cancel", {.preemptions = 2}, birth_against_cancel},
        {"pin against cancel", {.preemptions = 2}, pin_against_cancel},
        {"both cancel", {.preemptions = 2}, both_cancel},
        {"destroyed by who heard", {.preemptions = 2}, destroyed_by_who_heard},
        {"kept by the canceller", {.preemptions = 2}, kept_by_the_canceller},
        {"cancelled briefly", {.preemptions = 2}, cancelled_briefly},
    },
};
const enrol_protocol kEnrolled(kProtocol);

TEST(Model, CancelTree) { expect_all_mutants_caught(kProtocol); }

}  // namespace
}  // namespace weft::model
