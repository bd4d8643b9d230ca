// The tree of contexts: who hears of a cancellation, and when a node may go. [CX-2] to [CX-4]
//
// Cancelling a node, by its cancel function, its deadline's goroutine or its parent:
//   1. first wins, under the source's lock: error and cause; then everybody sees it cancelled
//   2. close done
//   3. call the hooks. A child's hook only puts the child on a list
//   4. the children of the list, one after the other: no recursion, however deep the tree
//   5. when all have heard of it, the references are dropped: by the canceller (release_all()), or, where
//      it must not run a user's destructor, by a goroutine (drop_all())
//
// CX1: whoever sees an error finds done closed: finished() waits for step 2. Otherwise "cancelled, but select
//      does not take it" would be possible.
// CX2: a node dies only when nobody can be inside its hook: its destructor takes the hook off its parent,
//      which waits for a call in progress; that call finds the count at zero and leaves it alone.
// CX6: whoever cancels holds a reference to each node until it is through with it, and hooks drop none:
//      the last one may destroy a user's value, which may park, and hooks must not (cancel_source.h).
//      The function that cancels may itself be destroyed meanwhile, by somebody who waited for done.
//      That destructor holds up nobody who is still to be cancelled, hence step 5.
//
// A node whose done() was handed out keeps itself (`pin`) until it is cancelled, if an ancestor or a
// deadline can still do that: a receiver of done need not keep the context.
//
// Node derives from tree_links<Node> and supplies, for products (context.cc) and for models:
//   references                  atomic<uint32_t>, born with 1
//   close_done()                step 2
//   static release(Node*)       drops a reference; the last one: leave_parent(), and the node is gone
//   touched()                   models: it must be there
//   in_hooks(bool)              models: step 3 begins, is over
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "gmp/cancel_source.h"

namespace weft::rt {

template <class Node>
struct tree_hook : cancel_hook {
  Node* self = nullptr;
};

template <class Node>
struct tree_links {
  tree_links(Node* self, Node* parent) noexcept : above(parent) {
    from_parent.self = pin.self = self;
  }
  tree_links(const tree_links&) = delete;
  tree_links& operator=(const tree_links&) = delete;

  Node* const above;  // what cancels it, too; kept by a reference
  cancel_source source;
  tree_hook<Node> from_parent;  // on above's list
  tree_hook<Node> pin;          // on its own
  atomic<std::uint32_t> pinned{0};
  atomic<std::uint32_t> finished{0};  // done is closed
  // the canceller's
  bool unpinned = false;      // step 3: the pin's reference is to be dropped
  Node** children = nullptr;  // step 3: where hooks put them
  Node* next = nullptr;       // on that list; then among those whose reference is to be dropped
};

template <class Node>
void tree_retain(Node* n) {
  n->references.fetch_add(1,
                          WEFT_ORDER(CX0, relaxed));  // order: relaxed, the caller has one already
}

// True: it was the last one.
template <class Node>
[[nodiscard]] bool tree_drop(Node* n) {
  // order: CX3 acq_rel: whoever destroys it sees what the others did
  return n->references.fetch_sub(1, WEFT_ORDER(CX3, acq_rel)) == 1;
}

template <class Node>
bool retain_if_alive(Node* n) {
  // order: relaxed, validated by the compare-exchange
  std::uint32_t now = n->references.load(WEFT_ORDER(CX0, relaxed));
  while (now != 0 || WEFT_MUTANT("dead-child-revived")) {
    // order: relaxed, the parent's lock and its "called" state keep it from going meanwhile
    if (n->references.compare_exchange_strong(now, now + 1, WEFT_ORDER(CX0, relaxed),
                                              WEFT_ORDER(CX0, relaxed))) {
      return true;
    }
  }
  return false;
}

// By a child's destructor. keeps CX2
template <class Node>
void leave_parent(Node* n) {
  if (n->above != nullptr && !WEFT_MUTANT("dies-listed")) {
    n->above->source.remove(n->from_parent);
  }
}

// Steps 1 to 3. True: the caller was first. The children that have to follow are put on `children`.
template <class Node, class Record>
bool cancel_node_only(Node* n, Record&& record, Node*& children) {
  n->touched();
  if (!n->source.begin(record)) {
    return false;
  }
  if (!WEFT_MUTANT("finished-before-closed")) n->close_done();
  n->finished.store(1, WEFT_ORDER(CX2, release));  // order: CX2 release to is_finished()
  if (WEFT_MUTANT("finished-before-closed")) n->close_done();
  n->children = &children;
  n->in_hooks(true);
  n->source.fire_all();
  n->in_hooks(false);
  if (n->unpinned && !WEFT_MUTANT("pinned-for-ever")) {
    Node::release(n);  // not the last: CX6
  }
  n->touched();
  leave_parent(n);
  return true;
}

// Steps 1 to 4 for n and all that hear of it: record(m) notes what is m's, ended(m) follows if m had not been
// cancelled before. Returns the descendants, by `next`; they and n have to be released. keeps CX6
template <class Node, class Record, class Ended>
[[nodiscard]] Node* cancel_all(Node* n, Record&& record, Ended&& ended) {
  if (!WEFT_MUTANT("not-kept")) tree_retain(n);
  Node* pending = nullptr;
  Node* through = nullptr;
  for (Node* m = n; m != nullptr;) {
    if (cancel_node_only(
            m, [&] { record(m); }, pending)) {
      ended(m);
    }
    if (m != n) {  // n->next may be another canceller's
      m->next = through;
      through = m;
    }
    m = pending;
    if (m != nullptr) {
      pending = m->next;
    }
  }
  return through;
}

// Step 5, for what cancel_all() returned.
template <class Node>
void release_all(Node* n, Node* through) {
  while (Node* m = through) {
    through = m->next;
    Node::release(m);
  }
  if (!WEFT_MUTANT("not-kept")) Node::release(n);
}

// The same, but without an end for those nobody keeps any more: they are returned, by `next`, which is
// nobody else's, as whoever lists a node keeps it.
template <class Node>
[[nodiscard]] Node* drop_all(Node* n, Node* through) {
  Node* dead = nullptr;
  const auto drop = [&dead](Node* m) {
    if (tree_drop(m)) {
      m->next = dead;
      dead = m;
    }
  };
  while (Node* m = through) {
    through = m->next;
    drop(m);
  }
  if (!WEFT_MUTANT("not-kept")) drop(n);
  return dead;
}

// Whether what the canceller recorded may be read. keeps CX1
template <class Node>
bool is_finished(const Node* n) {
  return n->finished.load(WEFT_ORDER(CX2, acquire)) != 0;  // order: CX2 acquire from the canceller
}

// Keeps n until it is cancelled.
template <class Node>
void pin_node(Node* n) {
  // order: relaxed, the flag alone decides who does it
  if (n->pinned.exchange(1, WEFT_ORDER(CX0, relaxed)) != 0) {
    return;
  }
  tree_retain(n);
  n->pin.fire = [](cancel_hook* h) {
    Node* self = static_cast<tree_hook<Node>*>(h)->self;
    if (WEFT_MUTANT("unpinned-in-the-hook")) {
      Node::release(self);
      return;
    }
    self->unpinned = true;  // CX6
  };
  if (!n->source.add(n->pin)) {
    Node::release(n);
  }
}

// The child hears of its parent from here on. False: too late, it has to be cancelled by the caller.
template <class Node>
[[nodiscard]] bool follow_parent(Node* n) {
  n->from_parent.fire = [](cancel_hook* h) {
    Node* child = static_cast<tree_hook<Node>*>(h)->self;
    child->touched();
    if (retain_if_alive(child)) {
      child->next = *child->above->children;
      *child->above->children = child;
    }
  };
  return n->above == nullptr || n->above->source.add(n->from_parent) || WEFT_MUTANT("born-unheard");
}

}  // namespace weft::rt
