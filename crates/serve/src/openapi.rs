//! The OpenAPI document of the REST interface.

use serde_json::{Value, json};

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

fn body(schema: &Value) -> Value {
    json!({ "application/json": { "schema": schema } })
}

/// One operation: its summary, path parameters, request and answer.
fn operation(summary: &str, parameters: &[&str], request: Option<&str>, answer: &str) -> Value {
    let parameter = |n: &&str| json!({ "name": n, "in": "path", "required": true, "schema": { "type": "string" } });
    let failure = |what: &str| json!({ "description": what, "content": body(&reference("Error")) });
    let mut out = json!({
        "summary": summary,
        "parameters": parameters.iter().map(parameter).collect::<Vec<_>>(),
        "responses": {
            "200": { "description": "The answer", "content": body(&reference(answer)) },
            "400": failure("The request is not what the model takes"),
            "401": failure("An API key is needed"),
            "404": failure("There is no such model or version"),
            "408": failure("The body did not arrive in time"),
            "413": failure("The body is too large"),
            "429": failure("The queue is full or the quota is used up; see Retry-After"),
            "500": failure("The model failed"),
            "503": failure("Loading, draining or failed; see Retry-After"),
            "504": failure("The deadline has passed"),
        },
    });
    if let Some(schema) = request {
        out["requestBody"] = json!({ "required": true, "content": body(&reference(schema)) });
    }
    out
}

fn schemas() -> Value {
    let string = json!({ "type": "string" });
    let shape = json!({ "type": "array", "items": { "type": "integer", "format": "int64" } });
    let (count, flag) = (json!({ "type": "integer", "minimum": 0 }), json!({ "type": "boolean" }));
    let parameters = json!({ "type": "object", "additionalProperties": true, "properties": {
        "timeout": count, "priority": count, "binary_data_size": count, "binary_data": flag, "binary_data_output": flag,
        "shared_memory_region": string, "shared_memory_offset": count, "shared_memory_byte_size": count,
    } });
    let datatype = json!({ "type": "string", "enum": [
        "BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "BF16", "FP32", "FP64"
    ] });
    let object = |required: &[&str], properties: Value| json!({ "type": "object", "required": required, "properties": properties });
    let list = |name: &str| json!({ "type": "array", "items": reference(name) });
    json!({
        "Any": { "type": "object", "additionalProperties": true },
        "List": { "type": "array", "items": { "type": "object" } },
        "Error": object(&["error"], json!({ "error": string })),
        "Ready": object(&[], json!({ "ready": { "type": "boolean" }, "live": { "type": "boolean" } })),
        "ServerMetadata": object(&["name", "version", "extensions"], json!({
            "name": string, "version": string, "extensions": { "type": "array", "items": string }
        })),
        "TensorMetadata": object(&["name", "datatype", "shape"], json!({
            "name": string, "datatype": datatype, "shape": shape
        })),
        "ModelMetadata": object(&["name", "platform", "inputs", "outputs"], json!({
            "name": string, "versions": { "type": "array", "items": string }, "platform": string,
            "inputs": list("TensorMetadata"), "outputs": list("TensorMetadata")
        })),
        "Tensor": object(&["name", "shape", "datatype"], json!({
            "name": string, "shape": shape, "datatype": datatype, "parameters": parameters,
            "data": { "type": "array", "items": {} }
        })),
        "RequestedOutput": object(&["name"], json!({ "name": string, "parameters": parameters })),
        "InferRequest": object(&["inputs"], json!({
            "id": string, "parameters": parameters, "inputs": list("Tensor"), "outputs": list("RequestedOutput")
        })),
        "InferResponse": object(&["model_name", "outputs"], json!({
            "model_name": string, "model_version": string, "id": string, "parameters": parameters,
            "outputs": list("Tensor")
        })),
        "Region": object(&["key", "byte_size"], json!({ "key": string, "offset": count, "byte_size": count })),
        "PredictRequest": { "type": "object", "properties": {
            "instances": { "type": "array", "items": {} }, "inputs": {}, "signature_name": string
        } },
        "PredictResponse": { "type": "object", "properties": {
            "predictions": { "type": "array", "items": {} }, "outputs": {}
        } },
    })
}

/// The document.
pub fn document() -> Value {
    let mut paths = json!({
        "/v2": { "get": operation("The server", &[], None, "ServerMetadata") },
        "/v2/health/live": { "get": operation("Whether the process answers", &[], None, "Ready") },
        "/v2/health/ready": { "get": operation("Whether requests are taken", &[], None, "Ready") },
        "/v2/repository/index": { "post": operation("Models with their states", &[], None, "List") },
        "/v2/repository/models/{name}/load": { "post": operation("Load or reload a model", &["name"], None, "Any") },
        "/v2/repository/models/{name}/unload": { "post": operation("Unload a model", &["name"], None, "Any") },
        "/v2/models/stats": { "get": operation("Counters of all models", &[], None, "Any") },
        "/v2/systemsharedmemory/status": { "get": operation("Regions of shared memory", &[], None, "List") },
        "/v2/systemsharedmemory/unregister": { "post": operation("Forget all regions", &[], None, "Any") },
        "/v2/systemsharedmemory/region/{name}/status": { "get": operation("A region", &["name"], None, "List") },
        "/v2/systemsharedmemory/region/{name}/register": {
            "post": operation("Register shared memory of the same machine", &["name"], Some("Region"), "Any")
        },
        "/v2/systemsharedmemory/region/{name}/unregister": {
            "post": operation("Forget a region", &["name"], None, "Any")
        },
        "/v1/models/{name}": { "get": operation("TensorFlow Serving: states of versions", &["name"], None, "Any") },
        "/v1/models/{name}:predict": {
            "post": operation("TensorFlow Serving: predict", &["name"], Some("PredictRequest"), "PredictResponse")
        },
    });
    let rows = [
        ("", "get", "What a model takes and returns", None, "ModelMetadata"),
        ("/ready", "get", "Whether a model takes requests", None, "Ready"),
        ("/config", "get", "How a model is batched", None, "Any"),
        ("/stats", "get", "Counters of a model", None, "Any"),
        ("/infer", "post", "Run a model", Some("InferRequest"), "InferResponse"),
    ];
    for (suffix, method, summary, request, answer) in rows {
        let one = operation(summary, &["name"], request, answer);
        paths[format!("/v2/models/{{name}}{suffix}")] = json!({ method: one });
        let one = operation(summary, &["name", "version"], request, answer);
        paths[format!("/v2/models/{{name}}/versions/{{version}}{suffix}")] = json!({ method: one });
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Talweg inference server",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Open Inference Protocol (KServe v2) and TensorFlow Serving's predict."
        },
        "paths": paths,
        "components": {
            "schemas": schemas(),
            "securitySchemes": { "key": { "type": "http", "scheme": "bearer" } }
        },
    })
}
