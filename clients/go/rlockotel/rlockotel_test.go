package rlockotel_test

import (
	"context"
	"os"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/rlock/rlock/clients/go"
	"github.com/rlock/rlock/clients/go/rlockotel"
)

func TestASpanForEachWaitAndHoldAndTheirTimes(t *testing.T) {
	url := os.Getenv("RLOCK_URL")
	if url == "" {
		t.Skip("RLOCK_URL says where no server is")
	}
	spans, reader := tracetest.NewSpanRecorder(), metric.NewManualReader()
	observer, err := rlockotel.New(trace.NewTracerProvider(trace.WithSpanProcessor(spans)),
		metric.NewMeterProvider(metric.WithReader(reader)))
	if err != nil {
		t.Fatal(err)
	}
	locks, err := rlock.Connect(t.Context(), rlock.Options{URL: url, Observer: observer})
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close(context.Background())
	if err := locks.Do(t.Context(), t.Name(), func(context.Context, *rlock.Held) error { return nil }); err != nil {
		t.Fatal(err)
	}
	lost, err := locks.Acquire(t.Context(), t.Name(), rlock.FixedLease(20*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	<-lost.Context().Done()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		counts := collected(t, reader)
		if counts["rlock.wait.duration"] == 2 && counts["rlock.hold.duration"] == 1 && counts["rlock.losses"] == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(counts)
		}
	}
	names := map[string]int{}
	for _, span := range spans.Ended() {
		names[span.Name()]++
	}
	if names["rlock.wait"] != 2 || names["rlock.hold"] != 1 {
		t.Fatal(names)
	}
}

func collected(t *testing.T, reader metric.Reader) map[string]int64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	counts := map[string]int64{}
	for _, scope := range all.ScopeMetrics {
		for _, it := range scope.Metrics {
			switch data := it.Data.(type) {
			case metricdata.Histogram[float64]:
				for _, point := range data.DataPoints {
					counts[it.Name] += int64(point.Count)
				}
			case metricdata.Sum[int64]:
				for _, point := range data.DataPoints {
					counts[it.Name] += point.Value
				}
			}
		}
	}
	return counts
}
