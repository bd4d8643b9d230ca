// As pingpong, but both sides receive by a select over CASES channels (2 or 8) of which one is ever
// ready.

#include <utility>
#include <vector>

#include <weft/weft.h>

#include "report.h"

namespace {

using channels = std::vector<weft::chan<long>>;

template <std::size_t... I>
long select_recv(const channels& c, std::index_sequence<I...>) {
  long got = 0;
  weft::select(weft::recv(c[I], [&](std::optional<long> v) { got = *v; })...);
  return got;
}

template <std::size_t Cases>
void pingpong(long trips) {
  constexpr auto all = std::make_index_sequence<Cases>();
  channels there, back;
  for (std::size_t i = 0; i < Cases; i++) {
    there.emplace_back();
    back.emplace_back();
  }
  weft::wait_group finished;
  finished.go([&] {
    for (long i = 0; i < trips; i++) {
      const long v = select_recv(there, all);
      back[static_cast<std::size_t>(v) % Cases].send(v);
    }
  });
  const auto t = bench::now_ns();
  for (long i = 0; i < trips; i++) {
    there[static_cast<std::size_t>(i) % Cases].send(i);
    select_recv(back, all);
  }
  bench::report_per_op("ns_per_roundtrip", t, trips);
  finished.wait();
}

}  // namespace

int main(int argc, char** argv) {
  const bench::arguments args(argc, argv, 2, "CASES TRIPS");
  return weft::run(
      [=] { args.size[0] == 2 ? pingpong<2>(args.size[1]) : pingpong<8>(args.size[1]); },
      {.max_procs = args.procs});
}
