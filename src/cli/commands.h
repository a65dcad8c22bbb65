// Which subcommands does `tailrace` have? One file per subcommand; each adds itself to the CLI11
// app.
//
// A subcommand's callback sets `exit_code` (0 done, 1 failed, 2 bad usage or input, 3 no feasible
// answer).
#pragma once

namespace CLI {
class App;
}

namespace tailrace::cli {

inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitInfeasible = 3;

void add_score(CLI::App& app, int& exit_code);
void add_serve(CLI::App& app, int& exit_code);
void add_check(CLI::App& app, int& exit_code);
void add_explain(CLI::App& app, int& exit_code);
void add_engine(CLI::App& app, int& exit_code);
void add_predict(CLI::App& app, int& exit_code);
void add_load(CLI::App& app, int& exit_code);
void add_evaluate(CLI::App& app, int& exit_code);
void add_fit(CLI::App& app, int& exit_code);
void add_simulate(CLI::App& app, int& exit_code);
void add_latency(CLI::App& app, int& exit_code);
void add_size(CLI::App& app, int& exit_code);
void add_tune(CLI::App& app, int& exit_code);
void add_capacity(CLI::App& app, int& exit_code);
void add_autoscale(CLI::App& app, int& exit_code);
void add_presets(CLI::App& app, int& exit_code);
void add_version(CLI::App& app, int& exit_code);

}  // namespace tailrace::cli
