// Whether the tests run under a sanitizer, which needs memory and time of its own.
#pragma once

namespace teraio::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

}  // namespace teraio::testing
