package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/mindcoordinator/mind/api/client"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/profiling"
)

// listen opens the two doors: TaskService for coordinators and PeerService for
// other agents, HTTP for operators. Both stop with the returned function, which waits for them.
func (a *agent) listen(fatal chan<- error) (stop func(), err error) {
	listener, err := a.cfg.Machine.Network.Listen(a.cfg.GRPCAddr)
	if err != nil {
		return nil, fmt.Errorf("listen for coordinators: %w", err)
	}
	a.grpcAddr = advertised(a.cfg.GRPCAdvertise, listener)
	// The coordinators keep their connections, and probe them.
	options := client.ServerKeepalive()
	if a.serverTLS != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(a.serverTLS)))
	}
	server := grpc.NewServer(append(options, a.gates()...)...)
	v1.RegisterTaskServiceServer(server, &taskService{agent: a})
	v1.RegisterPeerServiceServer(server, &peerService{agent: a})
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(listener); err != nil {
			fatal <- fmt.Errorf("serve coordinators: %w", err)
		}
	}()
	stopGRPC := func() {
		server.Stop()
		<-done
	}
	if a.cfg.HTTPAddr == "" {
		return stopGRPC, nil
	}
	stopHTTP, err := a.listenHTTP(fatal)
	if err != nil {
		stopGRPC()
		return nil, err
	}
	return func() {
		stopHTTP()
		stopGRPC()
	}, nil
}

func (a *agent) listenHTTP(fatal chan<- error) (stop func(), err error) {
	listener, err := a.cfg.Machine.Network.Listen(a.cfg.HTTPAddr)
	if err != nil {
		return nil, fmt.Errorf("listen for operators: %w", err)
	}
	a.httpAddr = advertised(a.cfg.HTTPAdvertise, listener)
	mux := http.NewServeMux()
	mux.Handle(profiling.Path, profiling.Handler())
	mux.Handle("GET /metrics", promhttp.HandlerFor(a.cfg.Metrics, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}))
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /health/ready", func(w http.ResponseWriter, _ *http.Request) {
		if a.session.live.Load() {
			answer(w, http.StatusOK, "ready")
			return
		}
		answer(w, http.StatusServiceUnavailable, "no session with a leading coordinator")
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(listener); err != nil && !errors.Is(err, http.ErrServerClosed) {
			fatal <- fmt.Errorf("serve operators: %w", err)
		}
	}()
	return func() {
		bounded, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if server.Shutdown(bounded) != nil {
			_ = server.Close()
		}
		<-done
	}, nil
}

func answer(w http.ResponseWriter, code int, status string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	fmt.Fprintf(w, "{\"status\":%q}\n", status)
}

// metrics are the agent's own.
type metrics struct {
	launch prometheus.Histogram
	ended  *prometheus.CounterVec
	// abandoned counts what the log archive should have had.
	abandoned prometheus.Counter
}

func newMetrics(a *agent) *metrics {
	m := &metrics{
		launch: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "mind_agent_launch_seconds", Help: "From taking up a task to its process running.",
			Buckets: []float64{.001, .002, .004, .008, .016, .032, .064, .128, .256, .512, 1, 2, 4, 8},
		}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "mind_agent_tasks_ended_total", Help: "Tasks that ended on this node, by how."}, []string{"how"}),
		abandoned: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "mind_log_archive_abandoned_total", Help: "Task directories that were removed before the archive had taken all of them.",
		}),
	}
	a.cfg.Metrics.MustRegister(m.launch, m.ended, m.abandoned,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "mind_agent_tasks", Help: "Tasks on this node that have not ended."}, func() float64 {
			n := 0
			a.ask(func() { n = a.live() })
			return float64(n)
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "mind_agent_reports_waiting", Help: "Reports that no coordinator has acknowledged."}, func() float64 {
			return float64(a.outbox.waiting())
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "mind_agent_in_session", Help: "1 while in session with a leading coordinator."}, func() float64 {
			if a.session.live.Load() {
				return 1
			}
			return 0
		}),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "mind_agent_sessions_total", Help: "Sessions that began."}, func() float64 {
			return float64(a.session.connected.Load())
		}),
		newGPUCollector(a.gpus), quarantineCollector{a.gpus})
	a.cfg.Metrics.MustRegister(a.leases.metrics()...)
	if a.keys != nil {
		a.cfg.Metrics.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "mind_certificate_not_after_seconds", Help: "When the certificate runs out, in Unix time.", ConstLabels: prometheus.Labels{"shown_to": "components"},
		}, func() float64 { return float64(a.keys.NotAfter().Unix()) }))
	}
	return m
}

// gpuCollector reads the sensors when it is asked.
type gpuCollector struct {
	gpus  *gpuWatch
	descs [5]*prometheus.Desc
}

// readTimeout bounds how long a scrape waits for the driver.
const readTimeout = 2 * time.Second

func newGPUCollector(gpus *gpuWatch) *gpuCollector {
	labels := []string{"gpu", "uuid", "model"}
	desc := func(name, help string) *prometheus.Desc { return prometheus.NewDesc(name, help, labels, nil) }
	return &gpuCollector{gpus: gpus, descs: [5]*prometheus.Desc{
		desc("mind_gpu_utilization_ratio", "Share of time in which the GPU worked."),
		desc("mind_gpu_memory_used_bytes", "Memory in use on the GPU."),
		desc("mind_gpu_temperature_celsius", "Temperature of the GPU."),
		desc("mind_gpu_power_watts", "Power drawn by the GPU."),
		desc("mind_gpu_xid_errors_total", "Xid errors since the agent started."),
	}}
}

// Describe names the metrics.
func (c *gpuCollector) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		descs <- d
	}
}

// Collect leaves out what is not known.
func (c *gpuCollector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	readings, err := c.gpus.inventory.Read(ctx)
	if err != nil {
		return
	}
	for _, r := range readings {
		for _, gpu := range c.gpus.current() {
			if gpu.GetUuid() != r.UUID {
				continue
			}
			values := [5]float64{r.Utilization, r.MemoryUsed, r.Celsius, r.Watts, r.XidErrors}
			for i, value := range values {
				kind := prometheus.GaugeValue
				if i == 4 {
					kind = prometheus.CounterValue
				}
				if value >= 0 {
					out <- prometheus.MustNewConstMetric(c.descs[i], kind, value, fmt.Sprint(gpu.GetIndex()), r.UUID, gpu.GetModel())
				}
			}
		}
	}
}
