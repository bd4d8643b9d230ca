// Between contexts and std::stop_token.
#pragma once

#include <memory>
#include <stop_token>
#include <utility>

#include <weft/context.h>

namespace weft {

/// A context that is cancelled, too, when `token` is asked to stop. The callback is taken off the token
/// when the context ends.
[[nodiscard]] inline cancellable<cancel_func> with_stop_token(const context& parent,
                                                              std::stop_token token) {
  auto [inner, cancel] = with_cancel(parent);
  auto bridge =
      std::make_shared<std::stop_callback<cancel_func>>(std::move(token), cancel);  // may call it
  after_func(inner, [bridge]() mutable { bridge.reset(); });
  return {inner, cancel};
}

/// A token that is asked to stop, in a goroutine of its own, when ctx is cancelled.
[[nodiscard]] inline std::stop_token stop_token_of(const context& ctx) {
  std::stop_source source;
  after_func(ctx, [source]() mutable { source.request_stop(); });
  return source.get_token();
}

}  // namespace weft
