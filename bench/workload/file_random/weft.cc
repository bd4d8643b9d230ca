// TASKS goroutines that each read BLOCKS random blocks of 64 KiB from one file, past the page cache: how long a
// block takes with all of them at work, and how many threads the process needs for that.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <new>
#include <string>
#include <unistd.h>

#include <weft/weft.h>

#include "report.h"

namespace {

constexpr std::size_t kBlock = 64 << 10;
constexpr std::int64_t kBlocks = 4096;  // in the file

struct aligned_block {
  aligned_block() : data(static_cast<char*>(::operator new (kBlock, std::align_val_t{4096}))) {}
  ~aligned_block() { ::operator delete (data, std::align_val_t{4096}); }
  char* data;
};

void must(bool good, const char* what) {
  if (!good) {
    std::perror(what);
    std::exit(1);
  }
}

// A file that exists for as long as it is open. Made without weft, before it starts: only reading is measured.
int make_file() {
  std::string path = "/var/tmp/weft-bench-XXXXXX";
  const int named = mkstemp(path.data());
  must(named >= 0, path.c_str());
  const int fd = open(path.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC);
  must(fd >= 0, path.c_str());
  close(named);
  unlink(path.c_str());
  const aligned_block b;
  std::uint64_t x = 1;
  for (std::int64_t i = 0; i < kBlocks; i++) {
    for (std::size_t at = 0; at < kBlock; at += 8) {
      x = bench::work(x, 1);
      std::memcpy(b.data + at, &x, 8);
    }
    must(pwrite(fd, b.data, kBlock, i * static_cast<std::int64_t>(kBlock)) == kBlock, "pwrite");
  }
  must(fsync(fd) == 0, "fsync");
  return fd;
}

}  // namespace

int main(int argc, char** argv) {
  const bench::arguments args(argc, argv, 2, "TASKS BLOCKS");
  const int fd = make_file();
  return weft::run(
      [fd, tasks = args.size[0], blocks = args.size[1]] {
        auto f = weft::io::file::adopt(fd);
        weft::wait_group finished;
        finished.add(static_cast<int>(tasks));
        const auto t = bench::now_ns();
        for (long i = 0; i < tasks; i++) {
          weft::go([&, i] {
            const aligned_block b;
            std::uint64_t x = static_cast<std::uint64_t>(i) + 1;
            for (long k = 0; k < blocks; k++) {
              x = bench::work(x, 1);
              f.read_at({b.data, kBlock}, static_cast<std::int64_t>((x >> 16) % kBlocks * kBlock));
            }
            finished.done();
          });
        }
        finished.wait();
        bench::report_per_op("ns_per_block", t, tasks * blocks);
        bench::report("threads", bench::status_number("Threads"));
      },
      {.max_procs = args.procs});
}
