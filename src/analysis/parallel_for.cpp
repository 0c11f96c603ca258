#include "analysis/parallel_for.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "base/thread.h"

namespace teraio::analysis {

void parallel_for(size_t count, int thread_count, const std::function<void(size_t)>& work) {
  std::atomic<size_t> next = 0;
  const auto take_pieces = [&] {
    for (size_t i = next++; i < count; i = next++) work(i);
  };
  const size_t others = std::min<size_t>(count, std::max(thread_count, 1)) - (count > 0 ? 1 : 0);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < others; ++i) {
    Result<std::thread> thread = start_thread(take_pieces);
    if (!thread.ok()) break;
    threads.push_back(std::move(*thread));
  }
  take_pieces();
  for (std::thread& thread : threads) thread.join();
}

}  // namespace teraio::analysis
