// What happened to a request, while it runs and for a while after?
//
// One record per generation request, kept for `explain`: numbers, names and outcomes, never a
// prompt or an answer. The newest `ended_max` ended ones are remembered. Loop thread only.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tailrace/core/strong.h"
#include "tailrace/core/time.h"
#include "tailrace/length/length_law.h"

namespace tailrace::gateway {

struct RequestRecord {
  std::string request_id;
  JobId job;
  std::string route;
  std::string model;
  std::string tenant;
  std::string client_address;
  bool stream = false;
  int slots = 1;
  int priority = 0;
  Tokens prompt_tokens{0};
  Tokens cap{0};
  MonoTime arrival;

  std::optional<length::LengthLaw> law;
  std::string law_source;  ///< "predicted" or "given"; empty: none (yet)
  bool calibrated = false;
  bool law_orders = false;  ///< the law decided the job's place

  std::string backend;  ///< the last one it was sent to
  int attempts = 0;
  std::optional<Duration> queued;
  std::optional<Duration> first_byte;  ///< from arrival to the answer's first byte
  std::optional<Duration> total;

  std::string state = "reading";
  std::string outcome;  ///< of an ended request
  int status = 0;
  Tokens output_tokens{0};
  bool output_estimated = false;
  std::string error;  ///< why it failed or was refused, if it was
};

class History {
 public:
  explicit History(std::size_t ended_max = 4096) : ended_max_(ended_max) {}

  void add(std::shared_ptr<RequestRecord> record);
  void ended(const std::shared_ptr<RequestRecord>& record);
  /// The newest record of that id. Clients may send one id twice.
  std::shared_ptr<const RequestRecord> find(std::string_view request_id) const;
  std::size_t size() const { return by_id_.size(); }

 private:
  std::size_t ended_max_;
  std::map<std::string, std::shared_ptr<RequestRecord>, std::less<>> by_id_;
  std::deque<std::weak_ptr<RequestRecord>> ended_;
};

}  // namespace tailrace::gateway
