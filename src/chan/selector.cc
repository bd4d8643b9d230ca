// A select whose cases are known at run time only. What it needs while it waits is allocated when
// cases are added, and the order of the channels is kept from one select to the next, so that a loop
// over the same cases neither allocates nor sorts.
//
// A case's callable may do what it likes with the selector: add cases, clear it, select again, destroy it.
// What is dropped while a callable runs goes when the outermost one has returned.
#include <memory>
#include <utility>
#include <vector>

#include <weft/detail/select.h>

namespace weft::detail {

struct selector_cases {
  std::vector<std::unique_ptr<any_case>> cases;
  std::vector<select_case> list;  // as it was at the last select
  std::vector<select_node> nodes;
  std::vector<std::uint32_t> order;
  bool sorted = false;  // `order` is that of `list`
  int running = 0;      // callables, one inside the other
  bool dropped = false;
};

namespace {

// While a callable runs.
class running_case {
 public:
  explicit running_case(selector_cases* cases) noexcept : cases_(cases) { ++cases_->running; }
  running_case(const running_case&) = delete;
  running_case& operator=(const running_case&) = delete;
  ~running_case() {
    if (--cases_->running == 0 && cases_->dropped) {
      delete cases_;
    }
  }

 private:
  selector_cases* cases_;
};

}  // namespace

std::size_t selector_add(selector_cases*& cases, any_case* c) {
  std::unique_ptr<any_case> owned(c);
  if (cases == nullptr) {
    cases = new selector_cases;
  }
  const std::size_t n = cases->cases.size() + 1;
  cases->list.resize(n);
  cases->nodes.resize(n);
  cases->order.resize(n);
  cases->sorted = false;
  cases->cases.push_back(std::move(owned));
  return n - 1;
}

std::size_t selector_select(selector_cases* cases) {
  if (cases == nullptr) {
    return select_run(nullptr, 0, nullptr, nullptr, false).index;
  }
  const std::size_t n = cases->cases.size();
  bool sorted = std::exchange(cases->sorted, false);
  for (std::size_t i = 0; i < n; ++i) {
    const select_case now = cases->cases[i]->prepare();
    sorted = sorted && now.ch == cases->list[i].ch;
    cases->list[i] = now;
  }
  cases->sorted = true;
  const select_result chosen =
      select_run(cases->list.data(), n, cases->nodes.data(), cases->order.data(), sorted);
  const running_case running(cases);
  cases->cases[chosen.index]->run(chosen.received);
  return chosen.index;
}

std::size_t selector_size(const selector_cases* cases) noexcept {
  return cases == nullptr ? 0 : cases->cases.size();
}

void selector_destroy(selector_cases* cases) noexcept {
  if (cases != nullptr && cases->running != 0) {
    cases->dropped = true;
    return;
  }
  delete cases;
}

}  // namespace weft::detail
