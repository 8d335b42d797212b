// What the single-step test steps through for the sake of the libraries: functions of the C++ library, the C library and the
// mathematical library, each called a few times. Stops itself with int3 at the beginning and at the end of main.
#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <memory>
#include <numeric>
#include <regex.h>
#include <search.h>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>
#include <wchar.h>

#define NOINLINE __attribute__((noinline))

static volatile double sink;

struct Shape {
    virtual ~Shape() = default;
    virtual double area() const = 0;
};
struct Square : Shape {
    double side;
    explicit Square(double side) : side(side) {}
    double area() const override { return side * side; }
};
struct Disc : Shape {
    double radius;
    explicit Disc(double radius) : radius(radius) {}
    double area() const override { return M_PI * radius * radius; }
};

static double NOINLINE containers() {
    std::map<std::string, int> ordered;
    std::unordered_map<int, std::string> hashed;
    for (const char *word : {"one", "two", "three", "a word that is too long for the string itself"}) {
        ordered[word] += (int)std::strlen(word);
        hashed[(int)ordered.size()] = std::string(word) + "!";
    }
    ordered.erase("two");
    std::vector<double> numbers(9);
    std::iota(numbers.rbegin(), numbers.rend(), 1.5);
    std::sort(numbers.begin(), numbers.end());
    std::stable_sort(numbers.begin(), numbers.end(), [](double a, double b) { return (int)a % 3 < (int)b % 3; });
    double sum = 0;
    for (auto &[name, count] : ordered) sum += count + (double)name.size();
    for (auto &[number, text] : hashed) sum += number + (double)text.size();
    return sum + numbers[4];
}

static double NOINLINE streams() {
    std::ostringstream out;
    out << "text " << 42 << ' ' << 3.25 << ' ' << std::hex << 255L << ' ' << true;
    std::istringstream in(out.str());
    std::string word;
    int number = 0;
    double real = 0;
    in >> word >> number >> real;
    return number + real + std::stod("2.5e1") + std::stoi("17") + (double)std::to_string(number).size();
}

static double NOINLINE virtual_calls() {
    std::vector<std::unique_ptr<Shape>> shapes;
    shapes.push_back(std::make_unique<Square>(2.0));
    shapes.push_back(std::make_unique<Disc>(1.0));
    double sum = 0;
    for (const auto &shape : shapes) sum += shape->area();
    return sum;
}

static double NOINLINE mathematics(double x) {
    double sum = std::sin(x) + std::cos(x) + std::tan(x) + std::asin(x / 9) + std::acos(x / 9) + std::atan2(x, 2);
    sum += std::exp(x) + std::log(x) + std::log10(x) + std::pow(x, 1.7) + std::cbrt(x) + std::hypot(x, 3);
    sum += std::sinh(x) + std::tanh(x) + std::expm1(x) + std::log1p(x) + std::tgamma(x) + std::lgamma(x) + std::erf(x);
    sum += std::fmod(x * 7, 1.3) + std::remainder(x * 7, 1.3) + std::sin((float)x) + std::exp((float)x);
    sum += std::abs(std::complex<double>(x, 2) * std::exp(std::complex<double>(0, x)));
    return sum + j0(x) + y1(x) + (double)std::exp((long double)x);
}

static int NOINLINE ascending(const void *a, const void *b) { return std::strcmp(*(char **)a, *(char **)b); }

static double NOINLINE c_library() {
    char text[128], other[128];
    const char *words[] = {"pear", "apple", "fig", "plum"};
    std::qsort(words, 4, sizeof *words, ascending);
    const char *key = "fig";
    double sum = std::bsearch(&key, words, 4, sizeof *words, ascending) != nullptr;
    std::snprintf(text, sizeof text, "%-8s|%08.3f|%+d|%#x|%Lg", words[1], 3.14159, 17, 48879, 2.5L);
    std::sscanf(text, "%8s|%lf", other, &sum);
    std::memmove(other + 1, text, 60);
    sum += std::strspn(text, "abc") + std::strcspn(text, "|") + (std::strstr(text, "14") != nullptr) + strcasecmp(text, "FIG");
    wchar_t wide[32];
    sum += (double)std::mbstowcs(wide, "wide", 32) + (double)wcslen(wide);
    std::tm parts{};
    parts.tm_year = 126, parts.tm_mday = 5;
    sum += (double)(std::mktime(&parts) & 7) + (double)std::strftime(text, sizeof text, "%A %j %H:%M", &parts);
    regex_t pattern;
    sum += regcomp(&pattern, "^a(b|c)*d$", REG_EXTENDED | REG_NOSUB) + regexec(&pattern, "abcbd", 0, nullptr, 0);
    regfree(&pattern);
    void *root = nullptr;
    for (const char *word : words) tsearch(word, &root, [](const void *a, const void *b) { return std::strcmp((char *)a, (char *)b); });
    tdestroy(root, [](void *) {});
    char *memory = (char *)std::calloc(3, 1000);
    memory = (char *)std::realloc(memory, 200000);
    std::free(memory);
    setenv("ORACLE", "yes", 1);
    return sum + (getenv("ORACLE") != nullptr) + drand48() + (double)(random() & 1) + (double)std::strtoul("0x1f", nullptr, 0);
}

extern "C" char __start_main_code[], __stop_main_code[];

__attribute__((section("main_code"))) int main() {
    __asm__ volatile("int3" : : "a"(__start_main_code), "d"(__stop_main_code));
    sink = containers();
    sink = sink + streams();
    sink = sink + virtual_calls();
    sink = sink + mathematics(1.25);
    sink = sink + c_library();
    __asm__ volatile("int3");
    return 0;
}
