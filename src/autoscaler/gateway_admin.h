// Which backends does the gateway know, and how is it told of others?
//
// A client of the gateway's admin API (docs/admin-api.md). Each call answers once, within the
// time-out. Loop thread only.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tailrace/net/whole_answer.h"

namespace tailrace::autoscaler {

struct GatewayBackend {
  std::string name;
  std::string url;  ///< "": drains and has left the table
  std::int64_t running = 0;
  bool draining = false;
};

/// Requests for whole, small answers, any number at once: each with one deadline over all of it.
class HttpRequests {
 public:
  HttpRequests(net::EventLoop& loop, net::Network& network, Duration timeout);
  HttpRequests(const HttpRequests&) = delete;
  HttpRequests& operator=(const HttpRequests&) = delete;

  /// `done` runs once, unless this object is destroyed first, and may destroy it.
  void send(const net::Endpoint& to, net::RequestHead head, std::string body,
            UniqueFunction<void(Result<net::WholeAnswer>)> done);

 private:
  net::EventLoop& loop_;
  std::unique_ptr<net::HttpClient> client_;
  Duration timeout_;
  std::uint64_t next_ = 0;
  std::map<std::uint64_t, std::unique_ptr<net::Question>> questions_;
};

class GatewayAdmin {
 public:
  GatewayAdmin(HttpRequests& requests, net::Url url, std::string token);

  /// Errors: kUnavailable and others of the network; what the gateway answers with its message.
  void list(UniqueFunction<void(Result<std::vector<GatewayBackend>>)> done);
  /// `backend`: JSON as docs/admin-api.md has it.
  void put(std::string_view name, std::string backend, UniqueFunction<void(Result<void>)> done);
  /// No error where it is not known.
  void remove(std::string_view name, UniqueFunction<void(Result<void>)> done);

 private:
  void call(std::string method, const std::string& path, std::string body,
            UniqueFunction<void(Result<net::WholeAnswer>)> done);

  HttpRequests& requests_;
  net::Url url_;
  std::string token_;
};

}  // namespace tailrace::autoscaler
