package main

// #include <stdint.h>
// static uint64_t grind(uint64_t n) { uint64_t v = 88172645463325252ull; for (uint64_t i = 0; i < n; i++) { v ^= v << 13; v ^= v >> 7; v ^= v << 17; __asm__ volatile("" : "+r"(v)); } return v; }
import "C"

import (
	"fmt"
	"os"
	"sort"
	"strconv"
	"sync"
	"time"
)

func fib(n int) int {
	if n < 2 {
		return n
	}
	return fib(n-1) + fib(n-2)
}

func sorting(n int) int {
	values := make([]int, n)
	for i := range values {
		values[i] = (i * 7919) % 10007
	}
	sort.Slice(values, func(a, b int) bool { return values[a] < values[b] })
	names := map[string]int{}
	for _, value := range values[:n/8] {
		names[strconv.Itoa(value)] += value
	}
	return len(names)
}

func worker(end time.Time, c chan int) {
	sum := 0
	for time.Now().Before(end) {
		sum += fib(22) + sorting(4000) + int(C.grind(20000)&1)
		c <- sum
	}
}

func main() {
	seconds, _ := strconv.ParseFloat(os.Args[1], 64)
	end := time.Now().Add(time.Duration(seconds * 1e9))
	c := make(chan int, 4)
	var wait sync.WaitGroup
	for i := 0; i < 3; i++ {
		wait.Add(1)
		go func() { defer wait.Done(); worker(end, c) }()
	}
	go func() { wait.Wait(); close(c) }()
	total := 0
	for value := range c {
		total += value & 1
	}
	fmt.Println("done", total >= 0)
}
