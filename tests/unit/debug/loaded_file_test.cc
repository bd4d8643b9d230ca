// Names of what is loaded, while files come and go: at its address, at its path, and under our eyes.
#include "debug/loaded_file.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

#include "debug/elf_image.h"
#include "debug/source.h"
#include "debug/traceback.h"
#include "os/clock.h"
#include "support/patience.h"

namespace weft::rt {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPage = 4096;

// Memory that looks as if a file were loaded there, at least at its beginning; each its own.
class pretence {
 public:
  explicit pretence(std::byte* memory) { where_.begin = reinterpret_cast<std::uintptr_t>(memory); }
  void load(const std::string& file) { load(file, file); }
  void load(const std::string& head_of, const std::string& path) {
    path_ = path;
    where_.path = path_.c_str();
    where_.end = where_.begin + kPage;
    std::ifstream(head_of, std::ios::binary)
        .read(reinterpret_cast<char*>(where_.begin), kPage);  // NOLINT: an address
  }
  const loaded_file& where() const { return where_; }
  std::string name_at(std::uintptr_t address) const {
    const char* name = find_symbol(where_, address).name;
    return name == nullptr ? "" : name;
  }

 private:
  loaded_file where_;  // its addresses are those in the file
  std::string path_;
};

std::uintptr_t address_in(const std::string& file, const std::string& name) {
  const elf_image image(file.c_str());
  const elf_image::symbol_table table = image.symbols();
  for (std::size_t i = 0; i < table.count; ++i) {
    if (table.strings + table.symbols[i].st_name == name) return table.symbols[i].st_value;
  }
  return 0;
}

class LoadedFile : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / ("weft_loaded_" + std::to_string(getpid()));
    fs::create_directories(folder_);
    mix_ = address_in(STRANGER, "stranger_mix");
    twin_mix_ = address_in(TWIN, "twins_mix");
    ASSERT_NE(mix_, 0U);
    ASSERT_NE(twin_mix_, 0U);
  }
  void TearDown() override { fs::remove_all(folder_); }
  // Files are looked at once a millisecond.
  static void let_it_be_noticed() {
    const std::int64_t now = nanotime();
    while (nanotime() < now + 2'000'000) {
    }
  }

  fs::path folder_;
  std::uintptr_t mix_ = 0, twin_mix_ = 0;
};

TEST_F(LoadedFile, AnotherAtItsAddress) {
  alignas(kPage) static std::byte memory[kPage];
  pretence p(memory);
  p.load(STRANGER);
  EXPECT_EQ(p.name_at(mix_), "stranger_mix");
  p.load(TWIN);
  EXPECT_EQ(p.name_at(twin_mix_), "twins_mix");
  p.load(STRANGER);
  EXPECT_EQ(p.name_at(mix_), "stranger_mix");
}

// As after an upgrade: what is at the path now is not what runs.
TEST_F(LoadedFile, AnotherAtItsPath) {
  alignas(kPage) static std::byte memory[kPage];
  pretence p(memory);
  p.load(STRANGER, TWIN);
  EXPECT_EQ(p.name_at(mix_), "");
  EXPECT_EQ(p.name_at(twin_mix_), "");
  const known_image* image = image_of(p.where());
  ASSERT_NE(image, nullptr);
  const byte_range id = image->head.build_id(), wanted = elf_image(STRANGER).build_id();
  ASSERT_EQ(id.size, wanted.size);
  EXPECT_EQ(std::memcmp(id.data, wanted.data, id.size), 0);
}

TEST_F(LoadedFile, ThatIsStripped) {
  alignas(kPage) static std::byte memory[kPage];
  const std::string stripped = folder_ / "stripped.so";
  if (test::emulated() ||
      std::system(("objcopy --strip-all " STRANGER " " + stripped).c_str()) != 0)
    GTEST_SKIP() << "no objcopy for it";
  pretence p(memory);
  p.load(STRANGER, stripped);
  EXPECT_EQ(p.name_at(mix_), "stranger_mix") << "by the dynamic symbols";
}

TEST_F(LoadedFile, ThatIsCutOff) {
  if (test::emulated())
    GTEST_SKIP() << "an emulator's rt_sigprocmask() does not tell what is readable";
  alignas(kPage) static std::byte memory[kPage];
  const std::string copy = folder_ / "copy.so";
  fs::copy_file(STRANGER, copy);
  pretence p(memory);
  p.load(copy);
  EXPECT_EQ(p.name_at(mix_), "stranger_mix");
  fs::resize_file(copy, 100);
  let_it_be_noticed();
  EXPECT_EQ(p.name_at(mix_), "");
  fs::copy_file(STRANGER, copy, fs::copy_options::overwrite_existing);
  EXPECT_EQ(p.name_at(mix_), "") << "once lost, it stays so";
}

TEST_F(LoadedFile, ThatIsWrittenOver) {
  alignas(kPage) static std::byte memory[kPage];
  const std::string copy = folder_ / "written.so";
  fs::copy_file(STRANGER, copy);
  pretence p(memory);
  p.load(copy);
  EXPECT_EQ(p.name_at(mix_), "stranger_mix");
  std::fstream(copy, std::ios::in | std::ios::out | std::ios::binary) << std::string(4096, '?');
  let_it_be_noticed();
  EXPECT_EQ(p.name_at(mix_), "");
}

// The header stays, and so does the size.
TEST_F(LoadedFile, ThatIsWrittenOverBehindItsHeader) {
  alignas(kPage) static std::byte memory[kPage];
  const std::string copy = folder_ / "body.so";
  fs::copy_file(STRANGER, copy);
  pretence p(memory);
  p.load(copy);
  EXPECT_EQ(p.name_at(mix_), "stranger_mix");
  std::fstream file(copy, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(sizeof(ElfW(Ehdr)));
  file << std::string(kPage, '?') << std::flush;
  let_it_be_noticed();
  EXPECT_EQ(p.name_at(mix_), "");
}

// … so that its last page is still there, with zeros at its end: of a table of sections, half of the last.
TEST_F(LoadedFile, ThatIsCutOffByALittle) {
  if (test::emulated())
    GTEST_SKIP() << "an emulator's rt_sigprocmask() does not tell what is readable";
  alignas(kPage) static std::byte memory[kPage];
  const std::string copy = folder_ / "shorter.so";
  fs::copy_file(STRANGER, copy);
  pretence p(memory);
  p.load(copy);
  EXPECT_EQ(p.name_at(mix_), "stranger_mix");
  const known_image* before = image_of(p.where());
  ASSERT_NE(before, nullptr);
  EXPECT_TRUE(is_intact(*before));
  fs::resize_file(copy, fs::file_size(copy) - sizeof(ElfW(Shdr)) / 2 - 8);
  let_it_be_noticed();
  EXPECT_FALSE(is_intact(*before));
}

// As when another thread unloads it while we look.
TEST_F(LoadedFile, ThatIsNoLongerThere) {
  if (test::emulated())
    GTEST_SKIP() << "an emulator's rt_sigprocmask() does not tell what is readable";
  auto* const memory = static_cast<std::byte*>(
      mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(memory, MAP_FAILED);
  pretence p(memory);
  p.load(STRANGER);
  EXPECT_EQ(p.name_at(mix_), "stranger_mix");
  mprotect(memory, kPage, PROT_NONE);
  EXPECT_EQ(p.name_at(mix_), "");
  mprotect(memory, kPage, PROT_READ | PROT_WRITE);
  p.load(TWIN);
  EXPECT_EQ(p.name_at(twin_mix_), "twins_mix") << "nothing is kept of what was not there";
  munmap(memory, kPage);
}

// A file with debug information is ours only if it says so.
TEST_F(LoadedFile, WhoseDebugFileHasNoBuildId) {
  alignas(kPage) static std::byte memory[2][kPage];
  const std::string stripped = folder_ / "stripped.so";
  const elf_image whole(STRANGER);
  const byte_range id = whole.build_id();
  ASSERT_GE(id.size, 2U);
  std::string digits;
  for (std::size_t i = 0; i < id.size; ++i) {
    char pair[3];
    std::snprintf(pair, sizeof pair, "%02x", id.data[i]);
    digits += pair;
  }
  const fs::path place = folder_ / ".build-id" / digits.substr(0, 2);
  const std::string debug = place / (digits.substr(2) + ".debug");
  fs::create_directories(place);
  const auto objcopy = [](const std::string& words) {
    return !test::emulated() && std::system(("objcopy " + words).c_str()) == 0;
  };
  if (!objcopy("--strip-all " STRANGER " " + stripped) ||
      !objcopy("--only-keep-debug " STRANGER " " + debug))
    GTEST_SKIP() << "no objcopy for it";
  ASSERT_EQ(setenv("WEFT_DEBUG_DIR", folder_.c_str(), 1), 0);
  pretence right(memory[0]);
  right.load(STRANGER, stripped);
  ASSERT_NE(image_of(right.where()), nullptr);
  EXPECT_TRUE(image_of(right.where())->debug);

  ASSERT_TRUE(objcopy("--remove-section .note.gnu.build-id " + debug));
  pretence wrong(memory[1]);
  wrong.load(STRANGER, stripped);
  ASSERT_NE(image_of(wrong.where()), nullptr);
  EXPECT_FALSE(image_of(wrong.where())->debug);
  unsetenv("WEFT_DEBUG_DIR");
}

// The real thing, where the loader puts one where the other was.
TEST_F(LoadedFile, UnloadedAndAnotherInItsPlace) {
  std::uintptr_t before = 0;
  for (const auto& [file, name] : {std::pair{STRANGER, "stranger_mix"}, {TWIN, "twins_mix"}}) {
    void* library = dlopen(file, RTLD_NOW);
    ASSERT_NE(library, nullptr) << dlerror();
    const auto at = reinterpret_cast<std::uintptr_t>(dlsym(library, name));
    source_frames frames;
    symbol function;
    find_source(at + 1, frames, &function);
    dlclose(library);
    ASSERT_NE(function.name, nullptr);
    EXPECT_STREQ(function.name, name);
    if (before != 0 && before != at) GTEST_SKIP() << "the loader has put it elsewhere";
    before = at;
  }
}

// lockcheck remembers whose code it is by the address.
TEST_F(LoadedFile, WhoseCodeIsNoLongerTheUsers) {
  void* library = dlopen(STRANGER, RTLD_NOW);
  ASSERT_NE(library, nullptr) << dlerror();
  const auto* users = static_cast<const char*>(dlsym(library, "stranger_mix")) + 1;
  EXPECT_EQ(user_call_site(users), users);
  EXPECT_EQ(user_call_site(users), users) << "remembered";
  dlclose(library);
  library = dlopen(OURS, RTLD_NOW);
  ASSERT_NE(library, nullptr) << dlerror();
  const auto* ours = static_cast<const char*>(dlsym(library, "weft_mix")) + 1;
  EXPECT_NE(user_call_site(ours), ours);
  EXPECT_NE(user_call_site(ours), ours) << "remembered";
  dlclose(library);
  if (ours != users) GTEST_SKIP() << "the loader has put it elsewhere";
}

}  // namespace
}  // namespace weft::rt
