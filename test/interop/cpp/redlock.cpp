// SPDX-License-Identifier: MIT

// redis-plus-plus' RedLockMutex (by scripts), with one master or several, as a peer of
// the interop tests. Obeys the commands that ../peers.py describes. Independent of
// lockwire.
//
// Usual course: a line on stdin, a call of the library, a line on stdout.
#include <sw/redis++/patterns/redlock.h>
#include <sw/redis++/redis++.h>
#include <sw/redis++/version.h>

#include <chrono>
#include <cstdio>
#include <ctime>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

static const milliseconds poll{5};

static long long now_us()
{
    timespec now{};

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000LL + now.tv_nsec / 1000;
}

class Peer
{
  public:
    explicit Peer(const std::vector<std::string> &sockets)
    {
        for (const auto &socket : sockets) {
            masters_.push_back(std::make_shared<sw::redis::Redis>("unix://" + socket));
            masters_.back()->ping();
        }
    }

    std::string obey(std::istringstream words)
    {
        std::string command, name, path, mode;
        long long lease = 0, more = 0;

        words >> command;
        if (command == "acquire" && words >> name >> lease >> more) {
            return acquire(name, milliseconds(lease), more);
        }
        if (command == "release") {
            return release();
        }
        if (command == "extend" && words >> lease) {
            return lock_->extend_lock(milliseconds(lease)) ? "extended" : "gone";
        }
        if (command == "round" && words >> name >> lease >> more >> path >> mode) {
            return round(name, milliseconds(lease), milliseconds(more), path,
                         mode == "lock");
        }
        return "error unknown command: " + words.str();
    }

  private:
    // A wait of 0 is one try; a negative wait is unlimited.
    std::string acquire(const std::string &name, milliseconds lease, long long wait)
    {
        const auto until = Clock::now() + milliseconds(wait);

        for (;;) {
            lock_.reset();
            name_ = name;
            mutex_ = std::make_unique<sw::redis::RedLockMutex>(masters_.begin(),
                                                               masters_.end(), name);
            lock_.emplace(*mutex_, std::defer_lock);
            if (lock_->try_lock(lease)) {
                token_ = find_token();
                return "held " + token_;
            }
            if (wait >= 0 && Clock::now() >= until) {
                return wait == 0 ? "busy -" : "timeout";
            }
            std::this_thread::sleep_for(poll + milliseconds(std::rand() % poll.count()));
        }
    }

    bool is_of_majority(const std::string &token)
    {
        size_t count = 0;

        for (const auto &master : masters_) {
            count += master->get(name_) == token;
        }
        return count > masters_.size() / 2;
    }

    // The library keeps its token private.
    std::string find_token()
    {
        for (const auto &master : masters_) {
            const auto token = master->get(name_);

            if (token && is_of_majority(*token)) {
                return *token;
            }
        }
        return "-";
    }

    // The library's release returns nothing, so the keys are read before it.
    std::string release()
    {
        const bool held = is_of_majority(token_);

        lock_->unlock();
        return held ? "released" : "gone";
    }

    std::string round(const std::string &name, milliseconds lease, milliseconds hold,
                      const std::string &path, bool locked)
    {
        const auto asked = now_us();
        long long value = 0;

        if (locked) {
            acquire(name, lease, -1);
        }
        std::cout << "held -" << std::endl;
        FILE *counter =
            std::fopen(path.c_str(), "r+"); // of fixed width: never seen empty
        if (counter == nullptr || std::fscanf(counter, "%lld", &value) != 1) {
            return "error the counter file";
        }
        std::this_thread::sleep_for(hold);
        std::rewind(counter);
        std::fprintf(counter, "%020lld\n", ++value);
        std::fclose(counter);
        const auto done = now_us();
        return "wrote " + std::to_string(value) + " " + std::to_string(asked) + " " +
               std::to_string(done) + " " + (locked ? release() : "released");
    }

    std::vector<std::shared_ptr<sw::redis::Redis>> masters_;
    std::unique_ptr<sw::redis::RedLockMutex> mutex_;
    std::optional<sw::redis::RedLock<sw::redis::RedLockMutex>> lock_;
    std::string name_, token_;
};

int main(int argc, char **argv)
{
    Peer peer(std::vector<std::string>(argv + 1, argv + argc));

    std::cout << "ready redis-plus-plus " << sw::redis::VERSION_MAJOR << "."
              << sw::redis::VERSION_MINOR << "." << sw::redis::VERSION_PATCH << std::endl;
    for (std::string line; std::getline(std::cin, line);) {
        try {
            std::cout << peer.obey(std::istringstream(line)) << std::endl;
        } catch (const std::exception &error) {
            std::cout << "error " << error.what() << std::endl;
        }
    }
}
