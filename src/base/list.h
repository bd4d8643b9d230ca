// Intrusive singly linked lists: a LIFO stack and a FIFO queue that know their size.
//
// Problem: the scheduler moves goroutines between lists in places that may not allocate, and often
// many at a time. The link is a member of the element (`&G::sched_link`), so a move is two stores
// and a splice is constant time.
//
// Invariants. LI1: an element is on at most one list that uses the same link; otherwise one of them
// loses its tail. Debug builds check what they can: an element leaves with a null link and must
// arrive with one. LI2: the last element's link is null. Not thread-safe: the owner of the list (a
// lock, a P) guards it.
// Rejected: doubly linked (eight more bytes in each goroutine for a removal from the middle that
// only idle Ms need), std::forward_list (allocates), a sentinel link (not constant-initialisable).
// Go: runtime/proc.go gList, gQueue
#pragma once

#include <cassert>
#include <cstdint>

namespace weft::rt {

template <class T, T* T::*Link>
class list_queue;

// Last in, first out.
template <class T, T* T::*Link>
class list_stack {
 public:
  constexpr list_stack() noexcept = default;

  bool empty() const noexcept { return head_ == nullptr; }
  std::uint32_t size() const noexcept { return size_; }
  T* peek() const noexcept { return head_; }

  void push(T* item) noexcept {
    assert(item->*Link == nullptr && "already on a list");
    item->*Link = head_;
    head_ = item;
    ++size_;
  }

  // Null if empty.
  T* pop() noexcept {
    T* item = head_;
    if (item == nullptr) return nullptr;
    head_ = item->*Link;
    item->*Link = nullptr;
    --size_;
    return item;
  }

  // Puts the whole queue on top, its first element topmost; the queue is empty afterwards.
  void push_all(list_queue<T, Link>& from) noexcept;

 private:
  friend class list_queue<T, Link>;
  T* head_ = nullptr;
  std::uint32_t size_ = 0;
};

// First in, first out.
template <class T, T* T::*Link>
class list_queue {
 public:
  constexpr list_queue() noexcept = default;

  bool empty() const noexcept { return head_ == nullptr; }
  std::uint32_t size() const noexcept { return size_; }
  T* peek() const noexcept { return head_; }
  static T* next(const T* item) noexcept { return item->*Link; }  // for walks that do not remove

  void push_back(T* item) noexcept {
    assert(item->*Link == nullptr && item != tail_ && "already on a list");
    (tail_ == nullptr ? head_ : tail_->*Link) = item;
    tail_ = item;
    ++size_;
  }

  void push_front(T* item) noexcept {
    assert(item->*Link == nullptr && item != tail_ && "already on a list");
    item->*Link = head_;
    head_ = item;
    if (tail_ == nullptr) tail_ = item;
    ++size_;
  }

  // Null if empty.
  T* pop() noexcept {
    T* item = head_;
    if (item == nullptr) return nullptr;
    head_ = item->*Link;
    if (head_ == nullptr) tail_ = nullptr;
    item->*Link = nullptr;
    --size_;
    return item;
  }

  // Appends the whole of `from` in its order; `from` is empty afterwards.
  void append(list_queue& from) noexcept {
    if (from.head_ == nullptr) return;
    (tail_ == nullptr ? head_ : tail_->*Link) = from.head_;
    tail_ = from.tail_;
    size_ += from.size_;
    from.forget();
  }

  // Appends the whole stack, top first; the stack is empty afterwards. Linear: finds its end.
  void append(list_stack<T, Link>& from) noexcept {
    while (T* item = from.pop()) push_back(item);
  }

  // Appends n elements of an array in their order.
  void append(T* const* items, std::uint32_t n) noexcept {
    for (std::uint32_t i = 0; i < n; ++i) push_back(items[i]);
  }

  // Moves up to n elements from the front into an array; returns how many.
  std::uint32_t pop_some(T** out, std::uint32_t n) noexcept {
    std::uint32_t i = 0;
    while (i < n && head_ != nullptr) out[i++] = pop();
    return i;
  }

 private:
  friend class list_stack<T, Link>;
  void forget() noexcept {
    head_ = tail_ = nullptr;
    size_ = 0;
  }

  T* head_ = nullptr;
  T* tail_ = nullptr;
  std::uint32_t size_ = 0;
};

template <class T, T* T::*Link>
void list_stack<T, Link>::push_all(list_queue<T, Link>& from) noexcept {
  if (from.head_ == nullptr) return;
  from.tail_->*Link = head_;
  head_ = from.head_;
  size_ += from.size_;
  from.forget();
}

}  // namespace weft::rt
