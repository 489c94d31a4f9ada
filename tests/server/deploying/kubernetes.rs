//! The manifest for Kubernetes: its parts fit together, and a server starts with its configuration.

use super::INSTALLED;
use rlock_testing::{Server, module};
use std::path::Path;
use yaml_rust2::{Yaml, YamlLoader};

const MANIFEST: &str = include_str!("../../../docs/kubernetes/rlock.yaml");

fn document(kind: &str) -> Yaml {
    let all = YamlLoader::load_from_str(MANIFEST).unwrap();
    all.into_iter().find(|it| it["kind"].as_str() == Some(kind)).unwrap_or_else(|| panic!("no {kind}"))
}

fn items(list: &Yaml) -> &[Yaml] {
    list.as_vec().unwrap_or_else(|| panic!("no list: {list:?}"))
}

fn text(value: &Yaml) -> &str {
    value.as_str().unwrap_or_else(|| panic!("no text: {value:?}"))
}

#[test]
fn a_server_starts_with_the_configuration() {
    let map = document("ConfigMap");
    let configuration = text(&map["data"]["valkey.conf"]);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("valkey.conf");
    let here = configuration
        .replace(INSTALLED, module().to_str().unwrap())
        .replace("dir /data", &format!("dir {}", directory.path().display()));
    assert!(!here.contains("/usr/lib") && !here.contains("/data"), "{here}");
    std::fs::write(&path, here).unwrap();
    let server = Server::prepare().without_module().configuration(&path).start();
    let mut client = server.client();
    for (name, value) in [("rlock.max-waiters", "2000"), ("maxmemory-policy", "noeviction"), ("appendonly", "yes")] {
        assert_eq!(client.say(&format!("CONFIG GET {name}")).words(), [name, value]);
    }
}

#[test]
fn the_module_is_copied_to_where_the_server_loads_it() {
    let set = document("StatefulSet");
    let pod = &set["spec"]["template"]["spec"];
    let [init] = items(&pod["initContainers"]) else { panic!("one init container") };
    let copies: Vec<_> = items(&init["command"]).iter().map(text).collect();
    let [_, _, mode, from, to] = copies[..] else { panic!("{copies:?}") };
    assert_eq!((mode, from), ("755", INSTALLED));
    let mounted = |container: &Yaml, volume: &str| {
        let mounts = items(&container["volumeMounts"]);
        let mount = mounts.iter().find(|mount| text(&mount["name"]) == volume).expect(volume);
        text(&mount["mountPath"]).to_owned()
    };
    let [server] = items(&pod["containers"]) else { panic!("one container") };
    assert_eq!(Path::new(to).parent().unwrap(), Path::new(&mounted(init, "modules")));
    assert_eq!(Path::new(INSTALLED).parent().unwrap(), Path::new(&mounted(server, "modules")));
    assert_eq!(format!("{}/valkey.conf", mounted(server, "configuration")), text(&items(&server["command"])[1]));
    assert_eq!(mounted(server, "data"), "/data");
}

#[test]
fn every_volume_that_is_mounted_is_there() {
    let set = document("StatefulSet");
    let pod = &set["spec"]["template"]["spec"];
    let claims = items(&set["spec"]["volumeClaimTemplates"]).iter().map(|claim| text(&claim["metadata"]["name"]));
    let there: Vec<_> = items(&pod["volumes"]).iter().map(|volume| text(&volume["name"])).chain(claims).collect();
    for container in items(&pod["initContainers"]).iter().chain(items(&pod["containers"])) {
        for mount in items(&container["volumeMounts"]) {
            assert!(there.contains(&text(&mount["name"])), "{mount:?}");
        }
        assert_eq!(container["securityContext"]["readOnlyRootFilesystem"].as_bool(), Some(true));
    }
    let configuration = items(&pod["volumes"]).iter().find(|it| text(&it["name"]) == "configuration").unwrap();
    assert_eq!(configuration["configMap"]["name"], document("ConfigMap")["metadata"]["name"]);
}

#[test]
fn the_service_finds_the_pods() {
    let (set, service) = (document("StatefulSet"), document("Service"));
    let labels = &set["spec"]["template"]["metadata"]["labels"];
    assert_eq!(&set["spec"]["selector"]["matchLabels"], labels);
    assert_eq!(&service["spec"]["selector"], labels);
    assert_eq!(set["spec"]["serviceName"], service["metadata"]["name"]);
    let port = &items(&service["spec"]["ports"])[0];
    let server = &items(&set["spec"]["template"]["spec"]["containers"])[0];
    assert_eq!(port["targetPort"], items(&server["ports"])[0]["name"]);
    assert_eq!(set["spec"]["replicas"].as_i64(), Some(1), "two would be two servers with other locks");
}

/// The probes, as a shell runs them in the pod; the image's valkey-cli is redis-cli by another name.
#[test]
fn a_server_is_ready_with_the_module_and_not_without() {
    let set = document("StatefulSet");
    let server = items(&set["spec"]["template"]["spec"]["containers"])[0].clone();
    let passes = |probe: &str, on: &Server| {
        let command: Vec<_> = items(&server[probe]["exec"]["command"]).iter().map(text).collect();
        assert_eq!(command[..2], ["sh", "-c"]);
        let shell = crate::shell::Shell::on(on);
        shell.program("valkey-cli", "#!/bin/sh\nexec redis-cli \"$@\"\n");
        shell.run(command[2]).status.success()
    };
    let (with, mut without) = (Server::start(), Server::prepare().without_module().start());
    assert!(passes("readinessProbe", &with) && passes("livenessProbe", &with));
    assert!(!passes("readinessProbe", &without) && passes("livenessProbe", &without));
    without.kill();
    assert!(!passes("livenessProbe", &without));
}
