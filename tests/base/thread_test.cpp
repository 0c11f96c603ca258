#include "base/thread.h"

#include <gtest/gtest.h>

#include "testing/thread_limit.h"

namespace teraio {
namespace {

TEST(StartThread, RunsTheWork) {
  bool has_run = false;
  Result<std::thread> thread = start_thread([&] { has_run = true; });
  ASSERT_TRUE(thread.ok());
  thread->join();
  EXPECT_TRUE(has_run);
}

TEST(StartThread, ARefusalNamesTheLimit) {
  if (!testing::can_limit_threads()) GTEST_SKIP() << "only root can take another user's limit";
  EXPECT_EQ(testing::run_with_threads(0,
                                      [] {
                                        const Result<std::thread> thread = start_thread([] {});
                                        const std::string message = thread.status().message();
                                        return message.find("ulimit -u") == std::string::npos;
                                      }),
            0);
}

}  // namespace
}  // namespace teraio
