// Result<T>: a value or an Error, for the data path, where a failure is an expected outcome with a cause.
// Start-up code throws std::runtime_error instead. An Error is never dropped: it is returned, answered or
// logged.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace lynx {

enum class ErrorCode {
  kInvalidArgument,  // the caller's input is wrong; the message names the field or place
  kNotFound,
  kBusy,  // try again later: no capacity now
  kDeadlineExceeded,
  kCancelled,
  kUnavailable,   // the peer is gone or not ready
  kIncompatible,  // fingerprints or versions do not fit
  kPermission,    // the shared secret or key is wrong
  kCorrupt,       // outside bytes that break their format
  kInternal,
};

std::string_view to_string(ErrorCode code);

// clang-analyzer loses what a Result holds on the way through std::variant, and takes a copy of it for
// garbage.
struct Error {  // NOLINT(clang-analyzer-core.uninitialized.Assign)
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
};

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value)
      : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT(google-explicit-constructor)
  Result(Error error)
      : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT(google-explicit-constructor)
  Result(ErrorCode code, std::string message) : Result(Error{code, std::move(message)}) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  const Error& error() const { return std::get<1>(state_); }

  T& operator*() { return value(); }
  const T& operator*() const { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)), ok_(false) {}  // NOLINT(google-explicit-constructor)
  Result(ErrorCode code, std::string message) : Result(Error{code, std::move(message)}) {}

  bool ok() const { return ok_; }
  explicit operator bool() const { return ok_; }
  const Error& error() const { return error_; }

 private:
  Error error_;
  bool ok_ = true;
};

using Status = Result<void>;

}  // namespace lynx
