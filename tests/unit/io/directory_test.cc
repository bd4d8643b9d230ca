// Directories of file systems that this machine may not have.
#include <algorithm>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include <weft/io.h>

#include "os/test_hooks.h"
#include "support/files.h"
#include "support/fixture.h"

namespace {

using weft::rt::os::test_hooks;
namespace io = weft::io;

class Directory : public weft::test::over_procs {
 protected:
  void TearDown() override {
    test_hooks.reset();
    over_procs::TearDown();
  }
};

// Names may have more than 255 bytes: 765 on vfat, 1024 with FUSE. Then one entry needs more room than for a few is taken.
TEST_P(Directory, LongNamesByFew) {
  const weft::test::folder dir;
  run([&] {
    std::vector<std::string> names;
    for (const char* name : {"a", "b", "c"}) {
      io::write_file(dir / name, std::string("x"));
      names.emplace_back(name);
    }
    test_hooks.longest_entry.set(1048);
    io::file folder = io::file::open(dir.path());
    std::vector<std::string> found;
    for (auto some = folder.read_dir(1); !some.empty(); some = folder.read_dir(1)) {
      for (const io::dir_entry& e : some) found.push_back(e.name);
    }
    std::sort(found.begin(), found.end());
    EXPECT_EQ(found, names);
    // What is wrong for another reason still is.
    test_hooks.longest_entry.set(1 << 20);
    std::error_code ec;
    io::file::open(dir.path()).read_dir(1, ec);
    EXPECT_EQ(ec, std::errc::invalid_argument);
  });
}

}  // namespace
