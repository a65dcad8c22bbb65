// What would a Kubernetes API server answer, and what if it fails just now?
//
// An API server in memory, over SimNetwork and in virtual time: objects, lists in pages, watches,
// merge patches, the scale subresource, resource versions as compare and swap. It is held to what a
// real server answered by tests/kubernetes/recorded_test.cc. Faults are scripted by the test.
#pragma once

#include <boost/json.hpp>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tailrace/kubernetes/api.h"
#include "tailrace/net/http_server.h"
#include "tailrace/net/sim_network.h"

namespace tailrace::kubernetes::testing {

/// What goes wrong with one request.
struct Fault {
  int status = 0;  ///< answered instead of carrying the request out
  std::string body;
  std::optional<int> retry_after_s;
  Duration delay{0};        ///< before the request is looked at
  bool cut_before = false;  ///< the connection breaks, nothing was done
  bool cut_after = false;   ///< it was done, and the connection breaks
};

struct SeenRequest {
  std::string method, target, body, authorization, content_type;
};

class FakeApi {
 public:
  FakeApi(net::SimLoop& loop, net::SimNetwork& network);
  ~FakeApi();

  void start();
  void stop();  ///< every connection closes, further ones are refused; objects stay

  /// As somebody else's write: `path` is the object's own ("/api/v1/namespaces/llm/pods/a").
  void put(const std::string& path, std::string_view json);
  void remove(const std::string& path);
  bool has(const std::string& path) const { return objects_.contains(path); }
  const boost::json::object& get(const std::string& path) const { return objects_.at(path); }
  std::string dotted(const std::string& path, std::string_view pointer) const;
  std::size_t objects() const { return objects_.size(); }

  /// Forgets history: watches and pages from before now are answered with 410.
  void compact() { compacted_ = version_; }
  void bookmark();                             ///< one on every watch
  void say_on_watches(std::string_view line);  ///< as it is
  void end_watches();                          ///< cleanly
  std::size_t watches() const { return watches_.size(); }

  ApiAccess access() const;
  static net::Endpoint endpoint() { return {"10.96.0.1", 443, false}; }

  std::function<std::optional<Fault>(const SeenRequest&)> fault;
  std::vector<SeenRequest> seen;
  std::set<std::string> unserved;  ///< groups that nobody has installed: "/apis/keda.sh/v1alpha1"
  int count(std::string_view method, std::string_view part) const;

 private:
  struct Target;
  struct Answer {
    int status = 200;
    std::string body;
  };
  struct Change {
    std::int64_t version;
    std::string type, path;
    boost::json::object object;
  };
  struct Watch;

  void handle(const std::shared_ptr<net::Exchange>& exchange);
  void serve(const std::shared_ptr<net::Exchange>& exchange, const SeenRequest& request);
  Answer carry_out(const SeenRequest& request);
  Answer list(const Target& target);
  Answer create(const Target& target, const SeenRequest& request);
  Answer replace(const Target& target, const SeenRequest& request);
  Answer patch(const Target& target, const SeenRequest& request);
  Answer erase(const Target& target);
  Answer scale_of(const Target& target);
  Answer patch_scale(const Target& target, const boost::json::object& change);
  void start_watch(const std::shared_ptr<net::Exchange>& exchange, const Target& target);
  void write(const std::string& path, boost::json::object object, std::string_view type);
  void notify(const Change& change);

  net::SimLoop& loop_;
  net::SimNetwork& network_;
  std::unique_ptr<net::HttpServer> server_;
  std::map<std::string, boost::json::object> objects_;
  std::vector<Change> changes_;
  std::list<std::shared_ptr<Watch>> watches_;
  std::vector<std::unique_ptr<net::Timer>> delayed_;
  std::int64_t version_ = 1000, compacted_ = 0, uids_ = 0;
};

}  // namespace tailrace::kubernetes::testing
