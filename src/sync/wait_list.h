// Those who wait for one object, in order: a doubly linked list of nodes that live on their stacks.
//
// Not thread-safe: the object's queue bit guards the list and the links of what is on it. A node
// knows whether it is on a list, so that one who has waited long enough can take himself off,
// or learn that somebody else has done so already.
//
// Invariant WL1: a node is on at most one list, and `linked` says so. Otherwise a waiter that gives up
// cuts a stranger's list.
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "base/fatal.h"

namespace weft::rt {

template <class Node>
class wait_list {
 public:
  constexpr wait_list() = default;

  bool empty() const { return head_.get() == nullptr; }

  void push_back(Node* n) {
    Node* last = tail_.get();
    attach(n, last, nullptr);
    (last == nullptr ? set_head(n) : set_next(last, n));
    tail_.set(n);
  }

  void push_front(Node* n) {
    Node* first = head_.get();
    attach(n, nullptr, first);
    (first == nullptr ? tail_.set(n) : set_prev(first, n));
    head_.set(n);
  }

  // Null if empty.
  Node* pop_front() {
    Node* n = head_.get();
    if (n != nullptr) {
      remove(n);
    }
    return n;
  }

  void remove(Node* n) {
    Node* before = n->prev;
    Node* after = n->next;
    (before == nullptr ? set_head(after) : set_next(before, after));
    (after == nullptr ? tail_.set(before) : set_prev(after, before));
    n->linked = false;
  }

  // Everything, in order; this list is empty afterwards.
  wait_list take_all() {
    wait_list all;
    all.head_.set(head_.get());
    all.tail_.set(tail_.get());
    head_.set(nullptr);
    tail_.set(nullptr);
    return all;
  }

  // The same, for whoever rouses them: linked by `next` only, on no list any more. Null if empty.
  Node* release_all() {
    Node* first = head_.get();
    for (Node* n = first; n != nullptr; n = n->next) {
      n->linked = false;
    }
    head_.set(nullptr);
    tail_.set(nullptr);
    return first;
  }

  // Appends all of `from`, in its order.
  void append(wait_list& from) {
    Node* first = from.head_.get();
    if (first == nullptr) {
      return;
    }
    Node* last = tail_.get();
    if (last == nullptr) {
      head_.set(first);
    } else {
      last->next = first;
      first->prev = last;
    }
    tail_.set(from.tail_.get());
    from.head_.set(nullptr);
    from.tail_.set(nullptr);
  }

  Node* front() const { return head_.get(); }

  // For those who take one out after the other: the nodes are on cold stacks, and waiting for each of
  // them is what a thousand wake-ups would spend their time on.
  [[gnu::always_inline]] void foresee() const {
    if (const Node* first = head_.get()) {
      first->foresee();
    }
  }

 private:
  void attach(Node* n, Node* before, Node* after) {
    n->prev = before;
    n->next = after;
    n->linked = true;
  }
  void set_head(Node* n) { head_.set(n); }
  static void set_next(Node* n, Node* to) { n->next = to; }
  static void set_prev(Node* n, Node* to) { n->prev = to; }

  cell<Node*> head_{};
  cell<Node*> tail_{};
};

}  // namespace weft::rt
