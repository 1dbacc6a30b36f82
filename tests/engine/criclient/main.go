// A client of the CRI, for the tests: it does what a kubelet does with containerd to start a pod, rotate its log, and
// change what a container may use.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	connection, err := grpc.NewClient("unix://"+os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
	check(err)
	client := cri.NewRuntimeServiceClient(connection)
	switch os.Args[2] {
	case "run": // POD LOGS CONTAINER IMAGE ARGUMENTS...
		pod, logs, name, image := os.Args[3], os.Args[4], os.Args[5], os.Args[6]
		sandbox := &cri.PodSandboxConfig{
			Metadata:     &cri.PodSandboxMetadata{Name: pod, Namespace: "default", Uid: pod},
			LogDirectory: logs,
			Linux: &cri.LinuxPodSandboxConfig{
				CgroupParent: "/qioi-cri-test",
				SecurityContext: &cri.LinuxSandboxSecurityContext{
					NamespaceOptions: &cri.NamespaceOption{Network: cri.NamespaceMode_NODE},
				},
			},
		}
		ran, err := client.RunPodSandbox(ctx, &cri.RunPodSandboxRequest{Config: sandbox})
		check(err)
		made, err := client.CreateContainer(ctx, &cri.CreateContainerRequest{
			PodSandboxId: ran.PodSandboxId, SandboxConfig: sandbox, Config: &cri.ContainerConfig{
				Metadata: &cri.ContainerMetadata{Name: name},
				Image:    &cri.ImageSpec{Image: image},
				Args:     os.Args[7:],
				LogPath:  name + "/0.log",
				Linux: &cri.LinuxContainerConfig{
					Resources: &cri.LinuxContainerResources{CpuShares: 1024},
					SecurityContext: &cri.LinuxContainerSecurityContext{
						NamespaceOptions: &cri.NamespaceOption{Network: cri.NamespaceMode_NODE},
					},
				},
			},
		})
		check(err)
		_, err = client.StartContainer(ctx, &cri.StartContainerRequest{ContainerId: made.ContainerId})
		check(err)
		fmt.Println(ran.PodSandboxId, made.ContainerId)
	case "remove": // SANDBOX
		_, err = client.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: os.Args[3]})
		check(err)
		_, err = client.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: os.Args[3]})
		check(err)
	case "update": // CONTAINER SHARES MEMORY; 0 for what is to stay
		resources := &cri.LinuxContainerResources{}
		_, err = fmt.Sscan(os.Args[4], &resources.CpuShares)
		check(err)
		_, err = fmt.Sscan(os.Args[5], &resources.MemoryLimitInBytes)
		check(err)
		_, err = client.UpdateContainerResources(ctx, &cri.UpdateContainerResourcesRequest{
			ContainerId: os.Args[3], Linux: resources,
		})
		check(err)
	case "reopen": // CONTAINER
		_, err = client.ReopenContainerLog(ctx, &cri.ReopenContainerLogRequest{ContainerId: os.Args[3]})
		check(err)
	}
}
