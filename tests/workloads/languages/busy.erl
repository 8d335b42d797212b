-module(busy).
-export([main/1]).
fib(N) when N < 2 -> N;
fib(N) -> fib(N - 1) + fib(N - 2).
sorting(N) -> length(lists:sort([(I * 7919) rem 10007 || I <- lists:seq(1, N)])).
texts(N) -> maps:size(maps:from_list([{integer_to_list(I), {I, I}} || I <- lists:seq(1, N)])).
churn(End, Sum) ->
    case erlang:monotonic_time(millisecond) < End of
        true -> churn(End, Sum + fib(20) + sorting(3000) + texts(1000));
        false -> Sum
    end.
main([Seconds]) ->
    End = erlang:monotonic_time(millisecond) + list_to_integer(Seconds) * 1000,
    Self = self(),
    [spawn(fun() -> Self ! churn(End, 0) end) || _ <- [1, 2]],
    Sums = [receive Sum -> Sum end || _ <- [1, 2]],
    io:format("done ~p~n", [lists:sum(Sums) > 0]),
    halt().
