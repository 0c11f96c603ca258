// Table: rows of text in aligned columns. The first column is left-aligned, the others
// right-aligned.
#pragma once

#include <string>
#include <vector>

namespace teraio::cli {

class Table {
 public:
  explicit Table(std::vector<std::string> header) : rows_{std::move(header)} {}

  // Adds a row with at most as many cells as the header.
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

  // Returns the table with a rule under the header; every line ends in a newline.
  std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace teraio::cli
