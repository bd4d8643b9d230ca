// Something of every header that <weft/weft.h> has, linked to the shared library (check.sh): a function that it hides is missing, and an
// exception that is thrown in it must be caught here. Prints one known line and ends while goroutines live, or says what is wrong.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <stdexcept>
#include <string>
#include <system_error>
#include <unistd.h>

#include <weft/weft.h>

namespace {

using namespace std::chrono_literals;

void expect(bool good, const char* what) {
  if (!good) {
    std::printf("wrong: %s\n", what);
    std::_Exit(1);
  }
}

// What it throws is caught here by its type.
template <class E, class F>
void expect_throw(F&& f, const char* what) {
  bool caught = false;
  try {
    f();
  } catch (const E&) {
    weft::gosched();
    caught = true;
  }
  expect(caught, what);
}

weft::goroutine_local<int> number(6);  // before main()

void goroutines() {
  std::string left;
  weft::thread ends_early([&] {
    struct at_end {
      std::string& s;
      ~at_end() { s += "unwound"; }
    } const guard{left};
    try {
      weft::goexit();
    } catch (...) {
      left += "caught ";
      throw;
    }
  });
  ends_early.join();
  expect(left == "caught unwound", "goexit");
  ++*number;
  weft::jthread([&](const weft::stop_token& token) {
    expect(*number == 6 && !token.stop_requested(), "goroutine_local, jthread");
    weft::this_thread::sleep_for(1us);  // sleep-ok: to have called it
  }).join();
  expect(*number == 7 && weft::this_thread::get_id() != weft::thread::id(), "this_thread");
  auto thrown = weft::async(weft::launch::async, [] { throw std::runtime_error("far"); });
  expect_throw<std::runtime_error>([&] { thrown.get(); }, "future");
  weft::task_group group;
  group.set_limit(2);
  for (int i = 0; i < 3; ++i) group.run([] { throw weft::panic_error("task"); });
  expect_throw<weft::panic_error>([&] { group.wait(); }, "task_group");
}

void channels() {
  const weft::chan<int> a(1), b;
  a.send(1);
  int got = 0;
  expect(weft::select(weft::recv(b), weft::recv(a, [&](std::optional<int> n) { got = *n; })) == 1 &&
             got == 1,
         "select");
  weft::selector again;
  again.add(weft::recv(b));
  again.add(weft::timeout(1us));
  expect(again.select() == 1, "selector");
  a.close();
  expect(!a.recv(), "receiving from a closed channel");
  expect_throw<weft::closed_channel>([&] { a.send(1); }, "closed_channel");
}

void times() {
  const auto begun = weft::clock::now();
  weft::timer t(1us);
  expect(t.c().recv() && !t.stop(), "timer");
  weft::ticker k(1us);
  expect(k.c().recv() && k.c().recv(), "ticker");
  weft::chan<int> called(1);
  const weft::timer f = weft::after_func(1us, [called] { called.send(1); });
  expect(called.recv() == 1 && weft::after(1us).recv() && weft::clock::now() > begun, "after_func");
}

void contexts() {
  struct key {
    using type = int;
  };
  auto [ctx, cancel] = weft::with_cancel(weft::with_value<key>(weft::context::background(), 5));
  std::stop_source stop;
  auto [stopped, unused] = weft::with_stop_token(ctx, stop.get_token());
  weft::chan<int> heard(1);
  const auto off = weft::after_func(stopped, [heard] { heard.send(1); });
  stop.request_stop();
  expect(heard.recv() && *stopped.value<key>() == 5 && !ctx.err(), "with_stop_token");
  const std::stop_token token = weft::stop_token_of(ctx);
  cancel();
  ctx.done().recv();
  expect(ctx.err() == std::errc::operation_canceled, "context");
  auto [late, unused_too] = weft::with_timeout(weft::context::background(), 1us);
  late.done().recv();
  expect(late.err() == std::errc::timed_out, "with_timeout");
  unused();
  unused_too();
}

void locks() {
  weft::mutex m;
  weft::timed_mutex tm;
  weft::recursive_mutex rm;
  weft::shared_timed_mutex sm;
  weft::condition_variable cv;
  weft::condition_variable_any any;
  weft::counting_semaphore<> sem(0);
  weft::latch down(1);
  weft::barrier<> meet(2);
  weft::wait_group wg;
  bool ready = false;
  wg.go([&] {
    const std::scoped_lock held(tm, rm, sm);
    {
      const std::lock_guard mine(m);
      ready = true;
    }
    cv.notify_all();
    any.notify_one();
    down.count_down();
    sem.release();
    meet.arrive_and_wait();
  });
  {
    std::unique_lock held(m);
    cv.wait(held, [&] { return ready; });
    any.wait_for(held, 1us);
  }
  sem.acquire();
  down.wait();
  meet.arrive_and_wait();
  wg.wait();
  expect(tm.try_lock_for(1s) && sm.try_lock_shared_for(1s) && !sem.try_acquire_for(1us), "locks");
  tm.unlock();
  sm.unlock_shared();
  expect_throw<std::system_error>([] { weft::thread().join(); }, "joining nobody");
  weft::once_flag flag;
  int calls = 0;
  weft::call_once(flag, [&] { ++calls; });
  weft::call_once(flag, [&] { ++calls; });
  weft::singleflight<int, int> flights;
  weft::pool<std::string> strings;
  strings.put("again");
  expect(weft::once_value([&] { return calls; })() == 1 &&
             flights.run(1, [] { return 2; }).value == 2 && strings.get().size() <= 5,
         "once, singleflight, pool");
}

void bytes() {
  auto server = weft::net::listen("127.0.0.1:0");
  weft::thread echo([&] {
    auto c = server.accept();
    char text[5];
    c.write_all(weft::const_buffer(text, c.read_full(text)));
  });
  auto c = weft::net::dial(server.local_endpoint().to_string());
  c.set_read_deadline(weft::clock::now() + 1h);
  c.write_all("hello");
  std::string back(5, ' ');
  c.read_full(back);
  echo.join();
  expect(back == "hello" && weft::net::resolver::lookup("127.0.0.1:1").size() == 1, "net");
  expect_throw<std::system_error>([&] { c.read_full(back); }, "reading behind the end");
  std::error_code ec;
  c.read_full(back, ec);
  expect(ec == weft::errc::unexpected_eof || ec.category() == weft::io_category(), "io_category");
  expect(weft::net::listen_udp("127.0.0.1:0").local_endpoint().port() != 0, "udp");
  auto [r, w] = weft::io::pipe();
  {
    weft::io::poll_fd p(w.native_handle());
    p.wait_writable();
  }
  w.close();
  expect(r.read_some(back) == 0, "pipe");
  const std::string self = weft::io::read_file("/proc/self/comm");
  auto file = weft::io::file::open("/proc/self/comm");
  expect(!self.empty() && file.read_some(back) > 0 && !weft::io::read_dir("/proc/self").empty(),
         "file");
  expect_throw<std::system_error>([] { weft::io::file::open("/none"); }, "no such file");
}

void processes_and_signals() {
  const auto said = weft::process::command("sh", {"-c", "echo out; exit 3"}).output();
  expect(said.exit_code == 3 && said.out == "out\n", "process");
  const weft::chan<int> c(1);
  weft::signal::notify(c, {SIGUSR1});
  ::kill(::getpid(), SIGUSR1);
  expect(c.recv() == SIGUSR1, "signal");
  weft::signal::stop(c);
}

void runtime() {
  namespace rt = weft::runtime;
  expect(rt::gomaxprocs() > 0 && rt::num_cpu() > 0 && rt::num_goroutine() > 0 && rt::goid() > 0,
         "runtime");
  expect(rt::stack(true).find("goroutine 1 [running]") != std::string::npos &&
             !rt::metrics().empty() && rt::stack_usage().size > 0,
         "runtime::stack");
  expect(rt::stop_the_world([] { return 4; }) == 4, "stop_the_world");
  rt::gc();
  rt::lock_os_thread();
  weft::gosched();
  rt::unlock_os_thread();
  const weft::no_preempt for_a_moment;
  expect(rt::blocking([] { return 5; }) == 5, "runtime::blocking");
}

}  // namespace

int main() {
  return weft::run([] {
    goroutines();
    channels();
    times();
    contexts();
    locks();
    bytes();
    processes_and_signals();
    runtime();
    weft::go([] { weft::chan<int>().recv(); });  // for ever
    weft::go([] {
      for (;;) weft::gosched();
    });
    weft::gosched();
    std::printf("sum 42\n");
    return 0;
  });
}
