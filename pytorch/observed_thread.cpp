#include "observed_thread.h"

namespace teraio::pytorch {

constinit thread_local ObservedThread* known_thread = nullptr;

ObservedThread& make_this_thread() {
  thread_local ObservedThread thread;
  known_thread = &thread;
  return thread;
}

}  // namespace teraio::pytorch
