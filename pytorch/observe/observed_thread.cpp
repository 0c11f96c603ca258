#include "observe/observed_thread.h"

#include <c10/core/impl/LocalDispatchKeySet.h>

namespace teraio::pytorch {

ObservedThread& make_this_thread() {
  thread_local ObservedThread thread;
  known_running_op = &thread;
  return thread;
}

std::string_view observer_dispatch_key() { return c10::toString(kObserverKey); }

void observe_this_thread(bool is_on) {
  c10::impl::tls_set_dispatch_key_included(kObserverKey, is_on);
}

bool is_this_thread_observed() { return c10::impl::tls_is_dispatch_key_included(kObserverKey); }

bool is_observer_reached() { return !c10::impl::tls_is_dispatch_key_excluded(kObserverKey); }

}  // namespace teraio::pytorch
