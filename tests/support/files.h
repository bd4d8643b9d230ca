// Folders for tests, and what is in their files.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <memory>
#include <string>
#include <unistd.h>

#include <weft/io.h>

namespace weft::test {

// A folder of its own, below the current one: that is on a disk where /tmp may not be.
class folder {
 public:
  folder() : path_("weft-test-XXXXXX") {
    if (mkdtemp(path_.data()) == nullptr) std::abort();
  }
  ~folder() { std::filesystem::remove_all(path_); }
  folder(const folder&) = delete;
  folder& operator=(const folder&) = delete;
  std::string operator/(const char* name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Aligned as O_DIRECT wants it.
class block {
 public:
  explicit block(std::size_t size) : size_(size) {
    void* p = nullptr;
    if (posix_memalign(&p, 4096, size) != 0) std::abort();
    data_.reset(static_cast<char*>(p));
  }
  operator weft::mutable_buffer() const { return {data_.get(), size_}; }  // NOLINT
  char* data() const { return data_.get(); }
  std::size_t size() const { return size_; }

 private:
  struct freeing {
    void operator()(char* p) const { std::free(p); }
  };
  std::size_t size_;
  std::unique_ptr<char, freeing> data_;
};

// Words that say where they are in which file. `at` and n are multiples of 8.
inline void fill(char* to, std::uint64_t file, std::uint64_t at, std::size_t n) {
  for (std::size_t i = 0; i < n; i += 8) {
    const std::uint64_t word = (at + i) * 0x9e3779b97f4a7c15u + file;
    std::memcpy(to + i, &word, 8);
  }
}
inline bool is_filled(const char* from, std::uint64_t file, std::uint64_t at, std::size_t n) {
  for (std::size_t i = 0; i < n; i += 8) {
    const std::uint64_t word = (at + i) * 0x9e3779b97f4a7c15u + file;
    if (std::memcmp(from + i, &word, 8) != 0) return false;
  }
  return true;
}

// A file with that in it, open for reading, past the page cache if the file system can.
inline io::file filled_file(const std::string& path, std::uint64_t file, std::size_t size) {
  std::string text(size, '\0');
  fill(text.data(), file, 0, size);
  io::write_file(path, text);
  std::error_code ec;
  io::file f = io::file::open(path, O_RDONLY | O_DIRECT, ec);
  if (!ec) return f;
  f = io::file::open(path);
  f.sync();
  posix_fadvise(f.native_handle(), 0, 0, POSIX_FADV_DONTNEED);
  return f;
}

}  // namespace weft::test
