// How does every single request of an experiment get into a file, however many there are?
//
// Runs write rows as requests end, several at once; each has a file without a name until its turn
// in the grid's order comes. The file appears under its own name when all is done: a program that
// is killed leaves nothing behind. Columns are documented in docs/simulate.md.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "tailrace/core/write_target.h"
#include "tailrace/simulate/experiment_run.h"

namespace tailrace::simulate {

class RequestCsv final : public RequestLog {
 public:
  /// Errors: kUnavailable naming the path where no file can be made in its folder.
  static Result<std::unique_ptr<RequestCsv>> open(const std::string& path,
                                                  const Experiment& experiment);
  ~RequestCsv() override;
  /// Names of the columns after the dimensions', with commas between them.
  static std::string_view columns();

  Result<std::unique_ptr<Part>> begin(std::size_t cell, std::uint64_t seed) override;
  Result<void> end(std::unique_ptr<Part> part) override;
  /// Gives the file its name, in the place of one that had it; a link is followed, a pipe or a
  /// device written into. Errors: kUnavailable.
  Result<void> commit();

 private:
  RequestCsv(core::WriteTarget target, std::string folder, const Experiment& experiment, int file);

  core::WriteTarget target_;
  std::string folder_;  ///< of files without a name
  const Experiment& experiment_;
  int file_;
};

}  // namespace tailrace::simulate
