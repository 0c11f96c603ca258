// Containers refuse io_uring by seccomp. The store must detect that, use threads and report it.
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstddef>

#include "base/units.h"
#include "storage/ssd_store.h"
#include "storage/store_session.h"
#include "testing/child_process.h"
#include "testing/scratch_directory.h"

namespace teraio::storage {
namespace {

using testing::ScratchDirectory;
using testing::StoreSession;

constexpr int kCannotForbid = 77;

// Like Docker's default profile: the three io_uring calls fail with EPERM.
bool forbid_io_uring() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, SYS_io_uring_setup, 0, 2),
      BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, SYS_io_uring_register, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// Runs `check` in a process in which io_uring is forbidden. Returns 0 if it returned true.
int run_without_io_uring(const std::function<bool()>& check) {
  return testing::exit_code_in_child([&] {
    return !forbid_io_uring() ? kCannotForbid : check() ? 0 : 1;
  });
}

class UringRefused : public ::testing::Test {
 protected:
  Result<std::unique_ptr<TierStore>> open(IoBackend backend) {
    SsdStoreOptions options;
    options.capacity_bytes = 8 * kMiB;
    options.backend = backend;
    return open_ssd_store({{directory_.path(), 0, 0}}, options, clock_);
  }

  ScratchDirectory directory_;
  SteadyClock clock_;
};

TEST_F(UringRefused, ThreadsTakeOverAndSaySo) {
  const int result = run_without_io_uring([this] {
    auto store = open(IoBackend::kAuto);
    if (!store.ok() || (*store)->counters().drives[0].io_path != "threads direct") return false;
    StoreSession session(std::move(*store));
    const Extent extent = session.reserve(5 * kMiB);
    return session.write(extent, 1).status.ok() && session.holds(extent, 1);
  });
  if (result == kCannotForbid) GTEST_SKIP() << "seccomp filters are not available here";
  EXPECT_EQ(result, 0);
}

TEST_F(UringRefused, WhoInsistsIsTold) {
  const int result = run_without_io_uring([this] {
    const auto store = open(IoBackend::kUring);
    return !store.ok() && store.status().code() == ErrorCode::kUnsupported &&
           store.status().message().find("Operation not permitted") != std::string::npos;
  });
  if (result == kCannotForbid) GTEST_SKIP() << "seccomp filters are not available here";
  EXPECT_EQ(result, 0);
}

}  // namespace
}  // namespace teraio::storage
