// A library that works on the main thread only, as most GUI toolkits do. With lock_main_thread the
// first goroutine stays on the thread that called run(); all the others run elsewhere.
#include <cstdio>
#include <thread>

#include <weft/weft.h>

namespace {

// Stands for the toolkit: it was made on the main thread and refuses to work on any other.
class window {
 public:
  void draw(int frame, int pixels) {
    const bool right_thread = std::this_thread::get_id() == owner_;
    std::printf("frame %d: %d pixels, %s\n", frame, pixels,
                right_thread ? "on the main thread" : "ON A WRONG THREAD");
    ok_ = ok_ && right_thread;
  }
  bool ok() const { return ok_; }

 private:
  std::thread::id owner_ = std::this_thread::get_id();
  bool ok_ = true;
};

}  // namespace

int main() {
  constexpr int kTiles = 4;
  window main_window;
  return weft::run(
      [&] {
        for (int frame = 1; frame <= 3; ++frame) {
          int tiles[kTiles] = {};
          weft::wait_group wg;
          for (int i = 0; i < kTiles; ++i) {
            wg.go([&tiles, frame, i] { tiles[i] = frame * 100 + i; });
          }
          wg.wait();  // the main thread sleeps; the P it ran on goes to another one
          int pixels = 0;
          for (const int t : tiles) {
            pixels += t;
          }
          main_window.draw(frame, pixels);
        }
        return main_window.ok() ? 0 : 1;
      },
      {.lock_main_thread = true});
}

// Output:
// frame 1: 406 pixels, on the main thread
// frame 2: 806 pixels, on the main thread
// frame 3: 1206 pixels, on the main thread
