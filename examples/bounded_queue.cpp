// A queue of bounded length between producers and consumers, as it stands in every textbook, with
// weft:: for std::. Some of them are goroutines, one is a plain thread.
#include <cstddef>
#include <cstdio>
#include <deque>
#include <optional>
#include <thread>

#include <weft/weft.h>

namespace {

class bounded_queue {
 public:
  explicit bounded_queue(std::size_t limit) : limit_(limit) {}

  void push(int value) {
    weft::unique_lock<weft::mutex> lock(mutex_);
    not_full_.wait(lock, [this] { return values_.size() < limit_; });
    values_.push_back(value);
    not_empty_.notify_one();
  }

  // Nothing once it is closed and drained.
  std::optional<int> pop() {
    weft::unique_lock<weft::mutex> lock(mutex_);
    not_empty_.wait(lock, [this] { return closed_ || !values_.empty(); });
    if (values_.empty()) {
      return std::nullopt;
    }
    const int value = values_.front();
    values_.pop_front();
    not_full_.notify_one();
    return value;
  }

  void close() {
    const weft::lock_guard<weft::mutex> lock(mutex_);
    closed_ = true;
    not_empty_.notify_all();
  }

 private:
  const std::size_t limit_;
  weft::mutex mutex_;
  weft::condition_variable not_full_, not_empty_;
  std::deque<int> values_;
  bool closed_ = false;
};

}  // namespace

int main() {
  return weft::run([] {
    bounded_queue queue(4);
    weft::wait_group producers;
    for (int p = 0; p < 3; ++p) {
      producers.go([&queue, p] {
        for (int i = 1; i <= 100; ++i) {
          queue.push(100 * p + i);
        }
      });
    }
    std::thread plain([&queue] { queue.push(1000); });

    auto consumer = [&queue] {
      long sum = 0;
      while (const std::optional<int> value = queue.pop()) {
        sum += *value;
      }
      return sum;
    };
    auto first = weft::async(consumer);
    auto second = weft::async(consumer);
    producers.wait();
    plain.join();
    queue.close();
    std::printf("sum %ld\n", first.get() + second.get());
  });
}

// Output:
// sum 46150
