// The tree of contexts: who hears of a cancellation, and when a node may go. [CX-2] to [CX-4]
//
// Cancelling a node, by its cancel function, its deadline's goroutine or its parent:
//   1. first wins, under the source's lock: error and cause; then everybody sees it cancelled
//   2. close done
//   3. call the hooks. A child's hook only puts the child on a list
//   4. the children of the list, one after the other: no recursion, however deep the tree
//
// CX1: whoever sees an error finds done closed: finished() waits for step 2. Otherwise "cancelled, but select
//      does not take it" would be possible.
// CX2: a node dies only when nobody can be inside its hook: its destructor takes the hook off its parent,
//      which waits for a call in progress; that call finds the count at zero and leaves it alone.
// CX6: whoever cancels holds a reference to each node until it is through with it, and hooks drop none:
//      the last one may destroy a user's value, which may park, and hooks must not (cancel_source.h).
//      The function that cancels may itself be destroyed meanwhile, by somebody who waited for done.
//
// A node whose done() was handed out keeps itself (`pin`) until it is cancelled, if an ancestor or a
// deadline can still do that: a receiver of done need not keep the context.
//
// Node derives from tree_links<Node> and supplies, for products (context.cc) and for models:
//   references                  atomic<uint32_t>, born with 1
//   close_done()                step 2
//   static release(Node*)       drops a reference; the last one: leave_parent(), and the node is gone
//   touched()                   models: it must be there
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
  Node* next = nullptr;       // on that list
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
  n->source.fire_all();
  if (n->unpinned && !WEFT_MUTANT("pinned-for-ever")) {
    Node::release(n);  // not the last: CX6
  }
  n->touched();
  leave_parent(n);
  return true;
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
    static_cast<tree_hook<Node>*>(h)->self->unpinned = true;  // CX6
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
