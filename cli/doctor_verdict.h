// What `teraio doctor` concludes from what it has found: which directories to use, what makes them
// slower than they could be, and the command to run next.
#pragma once

#include <span>
#include <string>

#include "probe/directory_facts.h"

namespace teraio::cli {

// Formats the verdict in lines. `has_gpu`: the machine has an NVIDIA GPU.
std::string verdict_of(std::span<const probe::DirectoryFacts> directories, bool has_gpu);

}  // namespace teraio::cli
