// An API server's answers from memory: what each list holds, which of them fail, what was asked.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tailrace/kubernetes/api.h"

namespace tailrace::kubernetes::testing {

class ObjectApi final : public Api {
 public:
  /// Objects of a list by its whole path; a list that is not here is not found.
  std::map<std::string, std::vector<std::string>> lists;
  std::map<std::string, Error> failures;
  std::vector<std::string> asked;
  /// Answers come when answer_next() is called instead of at once.
  bool hold = false;

  std::unique_ptr<ApiCall> send(ApiRequest request,
                                UniqueFunction<void(Result<ApiAnswer>)> done) override {
    asked.push_back(request.path);
    done(fail(ErrorCode::kUnavailable, "not here"));
    return std::make_unique<Call>();
  }

  std::unique_ptr<ApiCall> list(
      std::string path, UniqueFunction<void(Result<std::vector<std::string>>)> done) override {
    asked.push_back(path);
    if (hold) {
      held_.push_back({std::move(path), std::move(done)});
    } else {
      done(answer(path));
    }
    return std::make_unique<Call>();
  }

  std::unique_ptr<ApiCall> watch(std::string path, WatchHandlers handlers) override {
    asked.push_back(path);
    watch_handlers = std::move(handlers);
    return std::make_unique<Call>();
  }

  /// How many answers are waited for.
  std::size_t held() const { return held_.size(); }
  void answer_next() {
    auto next = std::move(held_.front());
    held_.erase(held_.begin());
    next.second(answer(next.first));
  }

  bool was_asked(const std::string& path) const {
    return std::find(asked.begin(), asked.end(), path) != asked.end();
  }

  WatchHandlers watch_handlers;  ///< of the last watch

 private:
  class Call final : public ApiCall {};

  Result<std::vector<std::string>> answer(const std::string& path) const {
    if (const auto failed = failures.find(path); failed != failures.end()) {
      return fail(failed->second);
    }
    const auto found = lists.find(path);
    if (found == lists.end()) return fail(ErrorCode::kNotFound, path + ": not found");
    return found->second;
  }

  std::vector<std::pair<std::string, UniqueFunction<void(Result<std::vector<std::string>>)>>> held_;
};

}  // namespace tailrace::kubernetes::testing
