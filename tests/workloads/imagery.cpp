// The program of the demo: a small image pipeline with one thread per stage, and phases that differ.
//
// Frames go from `render` through `blur` and `edges` to `histogram`; every so often the stages wait for each other, and at
// the end one thread sorts all that was found. usage: imagery [frames]

#include <algorithm>
#include <array>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <pthread.h>

namespace imagery {

constexpr int kSide = 384;

struct Frame {
    int number = 0;
    std::vector<float> pixels = std::vector<float>(kSide * kSide);
    float& at(int x, int y) { return pixels[static_cast<std::size_t>(y * kSide + x)]; }
};

/// A queue of bounded length; an empty value marks the end.
template <typename T>
class Channel {
public:
    void put(std::optional<T> value) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return values_.size() < 4; });
        values_.push_back(std::move(value));
        changed_.notify_all();
    }
    std::optional<T> take() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return !values_.empty(); });
        std::optional<T> value = std::move(values_.front());
        values_.pop_front();
        changed_.notify_all();
        return value;
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::optional<T>> values_;
};

float plasma(float x, float y, float time) {
    return std::sin(x * 9 + time) + std::sin(y * 7 - time) + std::sin(std::hypot(x - 0.5f, y - 0.5f) * 30 - 2 * time);
}

Frame render(int number) {
    Frame frame;
    frame.number = number;
    for (int y = 0; y < kSide; y++)
        for (int x = 0; x < kSide; x++)
            frame.at(x, y) = plasma(float(x) / kSide, float(y) / kSide, 0.1f * float(number));
    return frame;
}

template <bool Horizontal>
void blur_pass(Frame& frame, int radius) {
    Frame source = frame;
    for (int y = radius; y < kSide - radius; y++)
        for (int x = radius; x < kSide - radius; x++) {
            float sum = 0;
            for (int i = -radius; i <= radius; i++) sum += Horizontal ? source.at(x + i, y) : source.at(x, y + i);
            frame.at(x, y) = sum / float(2 * radius + 1);
        }
}

Frame blur(Frame frame) {
    // Every third batch of frames gets a wide blur: a phase that shows in the timeline.
    int radius = frame.number / 20 % 3 == 2 ? 12 : 3;
    blur_pass<true>(frame, radius);
    blur_pass<false>(frame, radius);
    return frame;
}

Frame edges(Frame frame) {
    Frame source = frame;
    for (int y = 1; y < kSide - 1; y++)
        for (int x = 1; x < kSide - 1; x++)
            frame.at(x, y) = std::hypot(source.at(x + 1, y) - source.at(x - 1, y), source.at(x, y + 1) - source.at(x, y - 1));
    return frame;
}

std::map<int, int> histogram(Frame& frame) {
    std::map<int, int> bins;
    for (float pixel : frame.pixels) bins[int(pixel * 64)]++;
    return bins;
}

template <typename Step>
std::thread stage(const char* name, Channel<Frame>& in, Channel<Frame>& out, Step step) {
    return std::thread([name, &in, &out, step] {
        pthread_setname_np(pthread_self(), name);
        while (auto frame = in.take()) out.put(step(std::move(*frame)));
        out.put(std::nullopt);
    });
}

std::size_t summarize(std::vector<std::string>& lines) {
    for (int round = 0; round < 6; round++) {
        std::sort(lines.begin(), lines.end(), [round](const std::string& one, const std::string& other) {
            return round % 2 ? one > other : std::lexicographical_compare(one.rbegin(), one.rend(), other.rbegin(), other.rend());
        });
    }
    return lines.size();
}

}  // namespace imagery

int main(int argc, char** argv) {
    using namespace imagery;
    int frames = argc > 1 ? std::atoi(argv[1]) : 120;
    Channel<Frame> rendered, blurred, edged;
    std::thread source([&] {
        pthread_setname_np(pthread_self(), "render");
        for (int number = 0; number < frames; number++) rendered.put(render(number));
        rendered.put(std::nullopt);
    });
    std::thread blurrer = stage("blur", rendered, blurred, blur);
    std::thread edger = stage("edges", blurred, edged, edges);
    std::vector<std::string> lines;
    while (auto frame = edged.take())
        for (auto [bin, count] : histogram(*frame))
            for (int copy = 0; copy < 8; copy++) lines.push_back(std::to_string(count * 31 + copy) + ":" + std::to_string(bin));
    for (std::thread* thread : {&source, &blurrer, &edger}) thread->join();
    std::printf("%d frames, %zu lines\n", frames, summarize(lines));
}
