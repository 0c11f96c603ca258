// ForkGuard: keeps a descriptor of this process from the children that it forks.
//
// O_CLOEXEC closes a descriptor in a child that executes another program. A child that goes on as a
// copy of its parent keeps it: an unlinked file then takes room on the drive until the child ends,
// also when the parent is killed and truncates nothing. A ring of io_uring keeps its files alive in
// the same way.
#pragma once

namespace teraio::io {

// In a child that is forked while this object lives, the descriptor's number refers to /dev/null:
// the file is closed there, and the number stays taken, so that a late close() of the child's copy
// of its owner closes nothing of the child's own. A child that is forked between the opening of the
// descriptor and this object's construction keeps it.
//
// Threads: any may construct and destroy guards, and fork, at the same time.
class ForkGuard {
 public:
  ForkGuard() = default;
  // `fd` stays open while this object lives; a negative one is none.
  explicit ForkGuard(int fd);
  ForkGuard(ForkGuard&& other) noexcept;
  ForkGuard& operator=(ForkGuard&& other) noexcept;
  ~ForkGuard();

 private:
  int fd_ = -1;
};

}  // namespace teraio::io
