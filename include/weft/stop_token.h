// Between contexts and std::stop_token.
#pragma once

#include <memory>
#include <stop_token>
#include <utility>

#include <weft/context.h>

namespace weft {

namespace detail {
// Only TSan needs it: the caller comes after whoever was locked to this thread before. A token takes a
// callback off without waiting if it was this very thread that asked it to stop.
WEFT_EXPORT void follow_locked() noexcept;

// What the token calls. Whoever asks it to stop, and whoever takes the callback off meanwhile, holds up a
// thread until it has returned: it must not park.
class stop_to_cancel {
 public:
  explicit stop_to_cancel(const context& c) noexcept : context_(c) {}
  void operator()() const noexcept { context_cancel_briefly(context_access::node(context_)); }

 private:
  context context_;
};
}  // namespace detail

/// A context that is cancelled, too, when `token` is asked to stop. The callback is taken off the token
/// when the context ends. Values of contexts that end with it, as nobody has them any more, are destroyed in a
/// goroutine, not by whoever asks.
[[nodiscard]] inline cancellable<cancel_func> with_stop_token(const context& parent,
                                                              std::stop_token token) {
  auto [inner, cancel] = with_cancel(parent);
  auto bridge = std::make_shared<std::stop_callback<detail::stop_to_cancel>>(
      std::move(token), detail::stop_to_cancel(inner));  // may call it
  after_func(inner, [bridge]() mutable {
    detail::follow_locked();
    bridge.reset();
  });
  return {inner, cancel};
}

namespace detail {
struct shared_stop_source final : context_attachment {
  std::stop_source source;
};
}  // namespace detail

/// A token that is asked to stop, in a goroutine of its own, when ctx is cancelled. All tokens of one
/// context are the same; those of one that is never cancelled are empty.
[[nodiscard]] inline std::stop_token stop_token_of(const context& ctx) {
  detail::context_node* const node = context_access::node(ctx);
  if (!detail::context_ends(node)) {
    return {};
  }
  auto* shared = static_cast<detail::shared_stop_source*>(detail::context_attached(node));
  if (shared == nullptr) {
    auto made = std::make_unique<detail::shared_stop_source>();
    const stop_func call_off =
        after_func(ctx, [source = made->source]() mutable { source.request_stop(); });
    detail::shared_stop_source* const mine = made.release();
    shared = static_cast<detail::shared_stop_source*>(detail::context_attach(node, mine));
    if (shared != mine) {
      call_off();
    }
  }
  return shared->source.get_token();
}

}  // namespace weft
