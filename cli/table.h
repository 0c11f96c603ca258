// Table: rows of text in aligned columns, the first to the left and the others to the right.
#pragma once

#include <string>
#include <vector>

namespace teraio::cli {

class Table {
 public:
  explicit Table(std::vector<std::string> header) : rows_{std::move(header)} {}

  // As many cells as the header, or fewer.
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

  // Lines with a rule under the header; each ends in a newline.
  std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace teraio::cli
