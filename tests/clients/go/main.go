// A short conversation with a queue tier, as a Go program would have it.
// Takes an address, and an account with its secret; prints what it was answered as JSON.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	options := &redis.Options{Addr: os.Args[1]}
	if len(os.Args) > 2 {
		options.Username, options.Password = os.Args[2], os.Args[3]
	}
	tier := redis.NewClient(options)
	defer tier.Close()

	answers := map[string]any{}
	ask := func(name string, words ...any) {
		answer, err := tier.Do(ctx, words...).Result()
		if err != nil && err != redis.Nil {
			log.Fatalf("%v: %v", words, err)
		}
		answers[name] = answer
	}
	ask("queue", "QCREATE", "orders")
	ask("sent", "SEND", "orders", "two coffees", "HEADER", "kind", "drinks")
	ask("message", "POP", "QUEUE", "orders", "LEASE", 60000)
	ask("acknowledged", "ACK", 1)
	ask("nothing", "POP", "QUEUE", "orders")
	answers["refused"] = tier.Do(ctx, "PEEK", "QUEUE", "nowhere").Err().Error()

	pipelined, err := tier.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for number := range 100 {
			pipe.Do(ctx, "SEND", "orders", number)
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	answers["pipelined"] = len(pipelined)
	ask("purged", "QPURGE", "orders")

	go func() {
		time.Sleep(200 * time.Millisecond)
		tier.Do(ctx, "SEND", "orders", "from another goroutine")
	}()
	ask("awaited", "POP", "QUEUE", "orders", "BLOCK", 2500)

	text, err := json.Marshal(readable(answers))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(text))
}

// readable gives maps string keys, which JSON wants.
func readable(value any) any {
	switch value := value.(type) {
	case map[any]any:
		named := map[string]any{}
		for name, field := range value {
			named[fmt.Sprint(name)] = readable(field)
		}
		return named
	case map[string]any:
		for name, field := range value {
			value[name] = readable(field)
		}
	}
	return value
}
