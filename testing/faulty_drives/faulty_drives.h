// A library to preload into a program: its drives fail and lie, by a seed.
//
// It stands before pread(), pwrite() and io_uring of the C library, so that the whole product runs
// above it unchanged. A drive is a folder `drive0`, `drive1`, ... in which an SSD directory keeps
// its file; other files are left alone. io_uring is refused: the product uses threads then.
//
// What happens to a request depends on the seed, the drive, the direction, the offset and on how
// often that offset has been used, and not on the order in which threads run.
//
// Threads: requests come from any thread; one thread at a time calls the functions below.
#pragma once

#include <cstdint>

extern "C" {

// Probabilities per request, 0 to 1. The first that applies, in this order, is what happens.
struct FaultyDrivesRates {
  double passing_error;     // EINTR or EAGAIN
  double partial;           // fewer blocks than asked for
  double late;              // up to 20 ms
  double read_error;        // EIO
  double write_error;       // EIO
  double full;              // ENOSPC, of a write
  double flipped_by_read;   // one bit of what is returned
  double flipped_by_write;  // one bit of what is stored
  double lost;              // a write that stores nothing
  double misdirected;       // a write that replaces another chunk instead
  double torn;              // a write that stores its first half
};

// From now on requests fail or lie at these rates. All requests of the drive `dead_drive` (-1:
// none) fail from its request number `dies_at` until before `heals_at`.
__attribute__((visibility("default"))) void faulty_drives_start(uint64_t seed,
                                                                const FaultyDrivesRates* rates,
                                                                int32_t dead_drive, int64_t dies_at,
                                                                int64_t heals_at);

// A fault that happened.
struct FaultyDrivesFault {
  int32_t drive;
  int32_t is_write;
  int32_t kind;  // 0 to 10: as FaultyDrivesRates has them; 11: the drive was dead
  int64_t offset_bytes;
  int64_t use_count;  // how often requests of this direction had used the offset before
};

// Copies at most `room` of the faults since the start, and returns how many there were. They are in
// the order in which they happened, and hanging requests are not among them.
__attribute__((visibility("default"))) int64_t faulty_drives_faults(FaultyDrivesFault* faults,
                                                                    int64_t room);

// From now on these faults happen, and no others. With the seed of the run that they are from,
// bits, blocks and places are the same.
__attribute__((visibility("default"))) void faulty_drives_repeat(uint64_t seed,
                                                                 const FaultyDrivesFault* faults,
                                                                 int64_t count);

enum FaultyDrivesDirection : int32_t { kFaultyReads, kFaultyWrites, kFaultyReadsAndWrites };

// The requests of the drive in this direction that come from now on, except for the next `count`,
// do not return until faulty_drives_release() or faulty_drives_stop(). Then they succeed.
__attribute__((visibility("default"))) void faulty_drives_hang(int32_t drive, int32_t direction,
                                                               int64_t count);
// The drive that hangs is released when `count` requests of other drives have come meanwhile.
__attribute__((visibility("default"))) void faulty_drives_release_after(int64_t count);
__attribute__((visibility("default"))) void faulty_drives_release();
// Blocks until a request hangs.
__attribute__((visibility("default"))) void faulty_drives_wait_for_hang();

// From now on requests succeed. Returns how many failed, lied or hung since the start.
__attribute__((visibility("default"))) int64_t faulty_drives_stop();

}  // extern "C"
