// base/list.h: order, size, and what splices leave behind.
#include "base/list.h"

#include <gtest/gtest.h>
#include <initializer_list>
#include <vector>

namespace weft::rt {
namespace {

struct node {
  node* link = nullptr;
  node* other = nullptr;  // a second link: an element may be on two lists that use different ones
};
using stack = list_stack<node, &node::link>;
using queue = list_queue<node, &node::link>;

template <class List>
std::vector<node*> pop_all(List& list) {
  std::vector<node*> out;
  while (node* n = list.pop()) {
    EXPECT_EQ(n->link, nullptr);
    out.push_back(n);
  }
  EXPECT_EQ(list.size(), 0u);
  EXPECT_TRUE(list.empty());
  return out;
}

using nodes = std::vector<node*>;

TEST(ListStack, LastInFirstOut) {
  stack s;
  node a, b, c;
  EXPECT_TRUE(s.empty());
  EXPECT_EQ(s.pop(), nullptr);
  for (node* n : {&a, &b, &c}) s.push(n);
  EXPECT_EQ(s.size(), 3u);
  EXPECT_EQ(s.peek(), &c);
  EXPECT_EQ(pop_all(s), (nodes{&c, &b, &a}));
}

TEST(ListQueue, FirstInFirstOut) {
  queue q;
  node a, b, c;
  EXPECT_EQ(q.pop(), nullptr);
  for (node* n : {&a, &b, &c}) q.push_back(n);
  EXPECT_EQ(q.size(), 3u);
  EXPECT_EQ(q.peek(), &a);
  EXPECT_EQ(queue::next(&a), &b);
  EXPECT_EQ(pop_all(q), (nodes{&a, &b, &c}));
  q.push_back(&b);  // usable again after it ran empty
  EXPECT_EQ(pop_all(q), nodes{&b});
}

TEST(ListQueue, PushFront) {
  queue q;
  node a, b, c;
  q.push_front(&b);
  q.push_back(&c);
  q.push_front(&a);
  EXPECT_EQ(pop_all(q), (nodes{&a, &b, &c}));
}

TEST(ListQueue, AppendsAQueue) {
  queue q, r;
  node a, b, c, d;
  q.append(r);
  EXPECT_TRUE(q.empty());
  r.push_back(&a);
  r.push_back(&b);
  q.append(r);  // into an empty one
  EXPECT_TRUE(r.empty());
  EXPECT_EQ(r.size(), 0u);
  r.push_back(&c);
  q.append(r);
  EXPECT_EQ(q.size(), 3u);
  q.push_back(&d);  // the tail moved with the splice
  EXPECT_EQ(pop_all(q), (nodes{&a, &b, &c, &d}));
}

TEST(ListQueue, AppendsAStackAndAnArray) {
  queue q;
  stack s;
  node a, b, c, d;
  s.push(&b);
  s.push(&a);
  q.append(s);
  EXPECT_TRUE(s.empty());
  node* const more[] = {&c, &d};
  q.append(more, 2);
  node* out[3];
  EXPECT_EQ(q.pop_some(out, 3), 3u);
  EXPECT_EQ(nodes(out, out + 3), (nodes{&a, &b, &c}));
  EXPECT_EQ(q.pop_some(out, 3), 1u);
  EXPECT_EQ(out[0], &d);
  EXPECT_EQ(q.pop_some(out, 3), 0u);
}

TEST(ListStack, TakesAWholeQueue) {
  stack s;
  queue q;
  node a, b, c;
  s.push_all(q);
  EXPECT_TRUE(s.empty());
  s.push(&c);
  q.push_back(&a);
  q.push_back(&b);
  s.push_all(q);
  EXPECT_TRUE(q.empty());
  EXPECT_EQ(s.size(), 3u);
  EXPECT_EQ(pop_all(s), (nodes{&a, &b, &c}));
}

TEST(List, TwoLinksTwoLists) {
  stack s;
  list_queue<node, &node::other> q;
  node a, b;
  for (node* n : {&a, &b}) {
    s.push(n);
    q.push_back(n);
  }
  EXPECT_EQ(pop_all(s), (nodes{&b, &a}));
  EXPECT_EQ(q.pop(), &a);
  EXPECT_EQ(q.pop(), &b);
}

}  // namespace
}  // namespace weft::rt
