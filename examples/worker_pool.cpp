// A fixed number of workers take jobs from one channel and put results into another. Closing the jobs
// ends the workers; when the last one has ended, the results are closed.
#include <cstdio>
#include <map>
#include <string>

#include <weft/weft.h>

namespace {

struct job {
  int number;
  std::string text;
};
struct result {
  int number;
  std::size_t vowels;
};

std::size_t count_vowels(const std::string& text) {
  std::size_t n = 0;
  for (const char c : text) n += std::string("aeiou").find(c) != std::string::npos ? 1 : 0;
  return n;
}

}  // namespace

int main() {
  return weft::run([] {
    constexpr int kWorkers = 4;
    const weft::chan<job> jobs;
    const weft::chan<result> results(8);

    weft::wait_group workers;
    for (int i = 0; i < kWorkers; ++i) {
      workers.go([jobs, results] {
        for (const job& j : jobs) results.send({j.number, count_vowels(j.text)});
      });
    }
    weft::go([jobs] {
      int number = 0;
      for (const char* text : {"warp", "weft", "shuttle", "heddle", "selvedge", "loom"}) {
        jobs.send({++number, text});
      }
      jobs.close();
    });
    weft::go([&workers, results] {
      workers.wait();
      results.close();
    });

    std::map<int, std::size_t> in_order;
    for (const result& r : results) in_order[r.number] = r.vowels;
    for (const auto& [number, vowels] : in_order) std::printf("%d: %zu\n", number, vowels);
  });
}

// Output:
// 1: 1
// 2: 1
// 3: 2
// 4: 2
// 5: 3
// 6: 2
