module busy

go 1.19
